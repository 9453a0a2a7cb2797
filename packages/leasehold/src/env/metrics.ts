/**
 * Every metric of Leasehold: what it counts, in which unit, with which labels. Names are OpenTelemetry's;
 * Prometheus sees `leasehold.lease.hold.duration` in `s` as `leasehold_lease_hold_duration_seconds`.
 *
 * A label has few values, whatever is leased: those that are listed here, or where the list is `null`
 * those that the program's own text bounds (route patterns, methods, statuses) or that are kept to a
 * few (prefixes). Never a resource, a holder, a key or a lease id.
 */

/** How a metric moves; see Telemetry. */
export type MetricKind = "counter" | "upDown" | "histogram" | "gauge" | "total";

interface MetricShape {
  readonly kind: MetricKind;
  /** As UCUM has it; what is counted in braces. */
  readonly unit: string;
  readonly about: string;
  readonly labels: Readonly<Record<string, readonly string[] | null>>;
}

const LOST = ["expired", "revoked", "taken", "gone", "inconsistent"] as const;
const PREFIX = { prefix: null } as const;

export const METRICS = {
  "leasehold.lease.acquire.attempts": {
    kind: "counter",
    unit: "{attempt}",
    about: "Requests to the store to take a lease; those that were held are contention.",
    labels: { outcome: ["acquired", "held", "ended", "failed"] },
  },
  "leasehold.lease.acquire.duration": {
    kind: "histogram",
    unit: "s",
    about: "How long a caller asked for a lease, its waits included, until it had it or gave up.",
    labels: { outcome: ["acquired", "held", "failed"] },
  },
  "leasehold.lease.waiters": {
    kind: "upDown",
    unit: "{caller}",
    about: "Callers of this process that wait for a lease now.",
    labels: {},
  },
  "leasehold.lease.held": {
    kind: "upDown",
    unit: "{lease}",
    about: "Leases that this process holds now.",
    labels: {},
  },
  "leasehold.lease.held.age.max": {
    kind: "gauge",
    unit: "s",
    about: "Age of the oldest live grant: of this process's own, at a server of those it serves.",
    labels: {},
  },
  "leasehold.lease.renew.attempts": {
    kind: "counter",
    unit: "{attempt}",
    about: "Requests to the store to renew a lease.",
    labels: { outcome: ["renewed", "lost", "failed"] },
  },
  "leasehold.lease.losses": {
    kind: "counter",
    unit: "{lease}",
    about: "Leases that ended under their holders; at a server, as it refused their renewals.",
    labels: { reason: LOST },
  },
  "leasehold.lease.release.attempts": {
    kind: "counter",
    unit: "{attempt}",
    about: "Requests to the store to release a lease.",
    labels: { outcome: ["released", "notHeld", "failed"] },
  },
  "leasehold.lease.reclaimed": {
    kind: "counter",
    unit: "{lease}",
    about:
      "Grants whose place a new one took after they had expired: their holders never released.",
    labels: {},
  },
  "leasehold.lease.hold.duration": {
    kind: "histogram",
    unit: "s",
    about: "From grant to end; at a server told when a new grant takes the place of an ended one.",
    labels: { ended: ["released", "lost", "expired", "revoked"] },
  },
  "leasehold.lease.revokes": {
    kind: "counter",
    unit: "{request}",
    about: "Requests to the store to end somebody's lease.",
    labels: { outcome: ["revoked", "notHeld", "otherToken", "failed"] },
  },
  "leasehold.lease.contended": {
    kind: "total",
    unit: "{attempt}",
    about:
      "Attempts that found a lease held, by what the resource begins with: the 20 most contended.",
    labels: PREFIX,
  },
  "leasehold.lease.endangered": {
    kind: "total",
    unit: "{renewal}",
    about:
      "Renewals that failed or were refused, by what the resource begins with: the 20 with most.",
    labels: PREFIX,
  },
  "leasehold.fence.refusals": {
    kind: "counter",
    unit: "{write}",
    about: "Writes that a guard refused because a newer token had passed.",
    labels: {},
  },
  "leasehold.store.duration": {
    kind: "histogram",
    unit: "s",
    about: "Calls to the store, batches as one.",
    labels: {
      store: ["leases", "tasks"],
      operation: [
        "acquire",
        "renew",
        "release",
        "revoke",
        "enqueue",
        "claim",
        "heartbeat",
        "complete",
        "fail",
        "giveBack",
      ],
      outcome: ["ok", "failed"],
    },
  },
  "leasehold.election.terms": {
    kind: "counter",
    unit: "{term}",
    about: "Terms that began here, of electors and singletons: leader changes, over all processes.",
    labels: { of: ["elector", "singleton"] },
  },
  "leasehold.election.leading": {
    kind: "upDown",
    unit: "{term}",
    about: "Terms under way here.",
    labels: { of: ["elector", "singleton"] },
  },
  "leasehold.task.depth": {
    kind: "gauge",
    unit: "{task}",
    about: "Tasks in each state, counted at most every 15 s.",
    labels: { state: ["pending", "running", "done", "dead", "cancelled"] },
  },
  "leasehold.task.events": {
    kind: "counter",
    unit: "{event}",
    about: "What happened to tasks through this process.",
    labels: {
      event: [
        "enqueued",
        "duplicate",
        "claimed",
        "completed",
        "failed",
        "dead",
        "returned",
        "refused",
        "expired",
        "cancelled",
        "retried",
      ],
    },
  },
  "leasehold.task.wait.duration": {
    kind: "histogram",
    unit: "s",
    about: "From when a task was due, by the store's clock, to its claim, by this machine's.",
    labels: {},
  },
  "leasehold.task.run.duration": {
    kind: "histogram",
    unit: "s",
    about: "From the claim of a task to what ended the grant.",
    labels: { outcome: ["completed", "failed", "returned", "refused", "expired"] },
  },
  "leasehold.generator.rate": {
    kind: "gauge",
    unit: "{task}/s",
    about: "What the generator should make a second; 0 while it is stopped.",
    labels: {},
  },
  "leasehold.server.refused": {
    kind: "counter",
    unit: "{request}",
    about:
      "Requests that an overloaded server refused before anything else; those below lack them.",
    labels: {},
  },
  "http.server.request.duration": {
    kind: "histogram",
    unit: "s",
    about: "Requests that the server answered, long waits included.",
    labels: {
      "http.request.method": null,
      "http.route": null,
      "http.response.status_code": null,
    },
  },
} as const satisfies Readonly<Record<string, MetricShape>>;

export type MetricName = keyof typeof METRICS;
/** The metrics of a kind. */
export type MetricOf<Kind extends MetricKind> = {
  [Name in MetricName]: (typeof METRICS)[Name]["kind"] extends Kind ? Name : never;
}[MetricName];
/** The labels of a metric, each with one of its values. */
export type LabelsOf<Name extends MetricName> = {
  readonly [Label in keyof (typeof METRICS)[Name]["labels"]]: (typeof METRICS)[Name]["labels"][Label] extends readonly (infer Value)[]
    ? Value
    : string;
};

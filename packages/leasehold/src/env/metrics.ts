/**
 * The catalogue of metrics, with their units and labels. Names follow OpenTelemetry: Prometheus exports
 * `leasehold.lease.hold.duration` in `s` as `leasehold_lease_hold_duration_seconds`.
 *
 * Every label has few values. A list here names them all. `null` marks labels that the code bounds (route
 * patterns, methods, statuses) or limits to a few (prefixes). No label carries a resource, a holder, a key
 * or a lease id.
 */

/** The type of instrument; see Telemetry. */
export type MetricKind = "counter" | "upDown" | "histogram" | "gauge" | "total";

interface MetricShape {
  readonly kind: MetricKind;
  /** A UCUM code; for counts, the counted thing in braces. */
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
    about: "Acquire requests to the store. The outcome `held` is contention.",
    labels: { outcome: ["acquired", "held", "ended", "failed"] },
  },
  "leasehold.lease.acquire.duration": {
    kind: "histogram",
    unit: "s",
    about: "Time from a call of acquire to its end, waiting included.",
    labels: { outcome: ["acquired", "held", "failed"] },
  },
  "leasehold.lease.waiters": {
    kind: "upDown",
    unit: "{caller}",
    about: "Callers in this process that wait for a lease.",
    labels: {},
  },
  "leasehold.lease.held": {
    kind: "upDown",
    unit: "{lease}",
    about: "Leases that this process holds.",
    labels: {},
  },
  "leasehold.lease.held.age.max": {
    kind: "gauge",
    unit: "s",
    about:
      "Age of the oldest live grant: of those that this process holds; on a server, of those that it serves.",
    labels: {},
  },
  "leasehold.lease.renew.attempts": {
    kind: "counter",
    unit: "{attempt}",
    about: "Renew requests to the store.",
    labels: { outcome: ["renewed", "lost", "failed"] },
  },
  "leasehold.lease.losses": {
    kind: "counter",
    unit: "{lease}",
    about: "Leases that their holders lost; on a server, counted when it refuses the renewal.",
    labels: { reason: LOST },
  },
  "leasehold.lease.release.attempts": {
    kind: "counter",
    unit: "{attempt}",
    about: "Release requests to the store.",
    labels: { outcome: ["released", "notHeld", "failed"] },
  },
  "leasehold.lease.reclaimed": {
    kind: "counter",
    unit: "{lease}",
    about: "Expired grants that a new grant replaced: their holders never released them.",
    labels: {},
  },
  "leasehold.lease.hold.duration": {
    kind: "histogram",
    unit: "s",
    about: "Time from grant to end; on a server, recorded when a new grant replaces the ended one.",
    labels: { ended: ["released", "lost", "expired", "revoked"] },
  },
  "leasehold.lease.revokes": {
    kind: "counter",
    unit: "{request}",
    about: "Revoke requests to the store.",
    labels: { outcome: ["revoked", "notHeld", "otherToken", "failed"] },
  },
  "leasehold.lease.contended": {
    kind: "total",
    unit: "{attempt}",
    about:
      "Acquire attempts that found the lease held, by prefix of the resource: the 20 most contended.",
    labels: PREFIX,
  },
  "leasehold.lease.endangered": {
    kind: "total",
    unit: "{renewal}",
    about: "Renewals that failed or were refused, by prefix of the resource: the 20 highest.",
    labels: PREFIX,
  },
  "leasehold.fence.refusals": {
    kind: "counter",
    unit: "{write}",
    about: "Writes that a guard refused because it had seen a newer token.",
    labels: {},
  },
  "leasehold.store.duration": {
    kind: "histogram",
    unit: "s",
    about: "Duration of calls to the store. A batch is one call.",
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
        "requeue",
      ],
      outcome: ["ok", "failed"],
    },
  },
  "leasehold.election.terms": {
    kind: "counter",
    unit: "{term}",
    about:
      "Terms of electors and singletons that began in this process. Summed over all processes: leader changes.",
    labels: { of: ["elector", "singleton"] },
  },
  "leasehold.election.leading": {
    kind: "upDown",
    unit: "{term}",
    about: "Current terms in this process.",
    labels: { of: ["elector", "singleton"] },
  },
  "leasehold.task.depth": {
    kind: "gauge",
    unit: "{task}",
    about: "Tasks in each state, sampled at most every 15 s.",
    labels: { state: ["pending", "running", "done", "dead", "cancelled"] },
  },
  "leasehold.task.events": {
    kind: "counter",
    unit: "{event}",
    about: "Task events in this process.",
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
    about: "Time from when a task was due (store's clock) to its claim (this machine's clock).",
    labels: {},
  },
  "leasehold.task.run.duration": {
    kind: "histogram",
    unit: "s",
    about: "Time from the claim of a task to the end of the grant.",
    labels: { outcome: ["completed", "failed", "returned", "refused", "expired"] },
  },
  "leasehold.generator.rate": {
    kind: "gauge",
    unit: "{task}/s",
    about: "Tasks that the generator should create per second; 0 while it is stopped.",
    labels: {},
  },
  "leasehold.server.refused": {
    kind: "counter",
    unit: "{request}",
    about:
      "Requests that an overloaded server refused at once. `http.server.request.duration` does not include them.",
    labels: {},
  },
  "http.server.request.duration": {
    kind: "histogram",
    unit: "s",
    about: "Duration of requests that the server answered, long polls included.",
    labels: {
      "http.request.method": null,
      "http.route": null,
      "http.response.status_code": null,
    },
  },
} as const satisfies Readonly<Record<string, MetricShape>>;

export type MetricName = keyof typeof METRICS;
/** The metrics of one kind. */
export type MetricOf<Kind extends MetricKind> = {
  [Name in MetricName]: (typeof METRICS)[Name]["kind"] extends Kind ? Name : never;
}[MetricName];
/** The labels of a metric with their possible values. */
export type LabelsOf<Name extends MetricName> = {
  readonly [Label in keyof (typeof METRICS)[Name]["labels"]]: (typeof METRICS)[Name]["labels"][Label] extends readonly (infer Value)[]
    ? Value
    : string;
};

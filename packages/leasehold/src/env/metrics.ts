/**
 * The catalogue of metrics, with their units and labels. Names follow OpenTelemetry: Prometheus exports
 * `leasehold.lease.hold.duration` in `s` as `leasehold_lease_hold_duration_seconds`.
 *
 * Every label has few values. A list here names them all. `null` marks labels that the code bounds (route
 * patterns, methods, statuses) or limits to the names with the largest counts (prefixes, resources,
 * elections). No label carries a holder, a key or a lease id.
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

/** Of all histograms, in seconds: from a call within the process to a TTL of an hour. */
export const BOUNDARIES: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600,
];

const LOST = ["expired", "revoked", "taken", "gone", "inconsistent"] as const;
const PREFIX = { prefix: null } as const;
const RESOURCE = { resource: null } as const;
/** `kind NAME` or `queue NAME`. */
const LIMIT = { limit: null } as const;

/**
 * All metrics by their OpenTelemetry names, each with its kind, unit, meaning and labels. docs/observability.md
 * lists them.
 */
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
  "leasehold.lease.renew.left": {
    kind: "histogram",
    unit: "s",
    about: "Time left of a grant when its renewal was sent; on a server, when it arrived.",
    labels: {},
  },
  "leasehold.lease.renew.delay": {
    kind: "histogram",
    unit: "s",
    about:
      "How much later than after a third of its TTL a grant was renewed: pauses of the holder and of its connection.",
    labels: {},
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
  "leasehold.resource.contended": {
    kind: "total",
    unit: "{attempt}",
    about: "Acquire attempts that found the lease held: the 20 most contended resources.",
    labels: RESOURCE,
  },
  "leasehold.resource.endangered": {
    kind: "total",
    unit: "{renewal}",
    about: "Renewals that failed or were refused: the 20 resources with the most.",
    labels: RESOURCE,
  },
  "leasehold.once.runs": {
    kind: "counter",
    unit: "{call}",
    about:
      "Calls of `once` by their end. `answered`: another caller had done the work; `refused`: it was not begun; `lost`: it ended too late to be recorded. A server counts what its callers report: `ran`, `failed` and `lost`.",
    labels: { outcome: ["ran", "answered", "failed", "refused", "lost"] },
  },
  "leasehold.schedule.delay": {
    kind: "histogram",
    unit: "s",
    about:
      "Time from a fire time to its task, which this process made. The count is that of the tasks.",
    labels: {},
  },
  "leasehold.schedule.skipped": {
    kind: "counter",
    unit: "{fire time}",
    about:
      "Fire times that made no task: too many were missed, or the last task was unfinished. Counted by the process that moved the schedule on.",
    labels: {},
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
    kind: "total",
    unit: "{term}",
    about:
      "Terms of electors and singletons, which are leader changes: in a candidate, its own; on a server, all that it granted. The 20 elections with the most.",
    labels: { election: null },
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
    about: "Tasks in each state, sampled at most every 15 s. Only servers export it.",
    labels: { state: ["pending", "running", "done", "dead", "cancelled", "expired"] },
  },
  "leasehold.task.events": {
    kind: "counter",
    unit: "{event}",
    about:
      "Task events in this process. A repeated request counts once, but each cancel and retry by operators counts.",
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
        "late",
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
  "leasehold.task.abandoned": {
    kind: "counter",
    unit: "{handler}",
    about:
      "Handlers of this process that went on for longer than `graceMs` after their task was lost or cancelled, or after its `maxRunMs`.",
    labels: {},
  },
  "leasehold.task.limit.running": {
    kind: "gauge",
    unit: "{task}",
    about:
      "Tasks of a limited kind or queue with a live lease, sampled at most every 15 s: the 20 limits nearest to being reached. Only servers export it.",
    labels: LIMIT,
  },
  "leasehold.task.limit.most": {
    kind: "gauge",
    unit: "{task}",
    about:
      "How many tasks of a limited kind or queue may have a live lease, for the same limits. Only servers export it.",
    labels: LIMIT,
  },
  "leasehold.task.keys.blocked": {
    kind: "gauge",
    unit: "{key}",
    about:
      "Concurrency keys that keep tasks back, up to 1,000, sampled at most every 15 s. Only servers export it.",
    labels: {},
  },
  "leasehold.generator.rate": {
    kind: "gauge",
    unit: "{task}/s",
    about:
      "Tasks that the generator should create per second; 0 while it is stopped. Only servers export it.",
    labels: {},
  },
  "leasehold.process.stall": {
    kind: "histogram",
    unit: "s",
    about: "How late a timer of this process fires, every 100 ms: pauses of its event loop.",
    labels: {},
  },
  "leasehold.server.responses": {
    kind: "counter",
    unit: "{response}",
    about: "Responses of the server by class of their status.",
    labels: { class: ["2xx", "3xx", "4xx", "5xx"] },
  },
  "leasehold.server.refused": {
    kind: "counter",
    unit: "{request}",
    about:
      "Requests that a server refused with 429, by what they asked too much of. `capacity`: the server was overloaded; `http.server.request.duration` does not include those that it refused at once.",
    labels: {
      reason: [
        "capacity",
        "rate",
        "in_flight",
        "bytes",
        "slots",
        "waits",
        "streams",
        "ttls",
        "quota",
      ],
    },
  },
  "leasehold.server.used": {
    kind: "gauge",
    unit: "1",
    about:
      "Share of a bound that is in use, for each scarce thing. `requests`, `event_loop` (how late it is) and `bodies` are of the instance; `answers` that are not read, `slots` of the store, `waits` and `streams` are of the tenant that uses most. Only servers export it.",
    labels: {
      of: ["requests", "event_loop", "bodies", "answers", "slots", "waits", "streams"],
    },
  },
  "leasehold.server.held_back.max": {
    kind: "gauge",
    unit: "s",
    about:
      "For how long the tenant has been refused requests again and again that has been so for longest; 0: none is. Only servers export it.",
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

/** The name of a metric, such as `leasehold.lease.held`. */
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

/**
 * All combinations of label values of a metric. Exporters announce them with zero: a counter that appears at
 * its first event has no increase that a collector could see. Empty if the values of a label are not listed.
 */
export function seriesOf<Name extends MetricName>(name: Name): LabelsOf<Name>[] {
  let series: Record<string, string>[] = [{}];
  const labels: MetricShape["labels"] = METRICS[name].labels;
  for (const [label, values] of Object.entries(labels)) {
    if (values === null) return [];
    series = series.flatMap((one) => values.map((value) => ({ ...one, [label]: value })));
  }
  return series.filter(mayOccur) as unknown as LabelsOf<Name>[];
}

const LEASE_OPERATIONS = ["acquire", "renew", "release", "revoke"];

/** Each store has operations of its own. */
function mayOccur({ store, operation = "" }: Readonly<Record<string, string>>): boolean {
  return store === undefined || (store === "leases") === LEASE_OPERATIONS.includes(operation);
}

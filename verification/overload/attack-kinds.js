// The attacks of `npm run verify -- overload --attack NAME`: what is sent, from how many connections.
import { randomBytes, randomUUID } from "node:crypto";

export const MIB = 1_048_576;

/** What takes longest for its size, among what is not refused for its nesting. */
const smallValues = (bytes) => `[${"{},0,".repeat(Math.floor(bytes / 5) - 1)}{}]`;
const bogusRenewals = (count = 1_000) => {
  const one = () => ({
    leaseId: `Ym9ndXM.${randomBytes(24).toString("hex")}`,
    ttlMs: 30_000,
  });
  return JSON.stringify(Array.from({ length: count }, one));
};
const TASK_DATA = (bytes) => `{"task_data":${smallValues(bytes - 20)}}`;

const DRIPPING = { unfinished: true, drips: true };
/** A read of as many leases as a body of this size names. */
const readOf = (bytes) =>
  JSON.stringify([...Array(Math.floor(bytes / 300))].map(() => "r".repeat(250)));

/** An acquire of a lease that no one else wants. */
const ownLease = () => {
  const leaseId = `${Buffer.from(randomUUID()).toString("base64url")}.${randomBytes(24).toString("hex")}`;
  return JSON.stringify([{ leaseId, holder: "attacker", ttlMs: 1_000 }]);
};

/** Claims of queues of the attacker's own. */
const claimOf = (queues, more) => JSON.stringify({ processor: "p", queues, ...more });

/** A list of tasks that none matches, other than those before. */
function emptyList() {
  const filters = [`queue=${randomUUID()}`, `kind=${randomUUID()}`];
  const [filter] = randomBytes(1)[0] % 2 === 0 ? filters : filters.reverse();
  const list = ["pending", "processed", "dead"][randomBytes(1)[0] % 3];
  return `/api/tasks/${list}?${filter}`;
}

/**
 * Each has this many connections, and sends the next request as soon as one is answered. Those with bodies send
 * them as large as the server was before it bounded them, and on every other connection as large as it allows.
 *
 * - `body` is shared by all requests of one size, `each` is made for each of them, `also` is what half of the connections
 *   send instead, and `few` what one of so many sends.
 * - `ahead`: without a key, and so many requests before the first answer.
 * - `unfinished`: the last byte of a body is not sent, and no answer is waited for after the attack.
 * - `drips`: of a body, a byte at a time is sent.
 * - `tasks`, `taskBytes`: how many tasks the attacker has, and the size of each; 4 MiB by default.
 * - `limits`: of the server, also with the protection: without what else protects, its absence would not show.
 * - `instances`: as many servers of one PostgreSQL are attacked. Of other stores there is one.
 * - `viewer`: by a key that may only read.
 * - `costs`: the engines on which it costs leases where nothing protects. On the others it takes what the test does not
 *   measure, such as memory, the time of the database, or more connections than one machine has.
 * - `streams`, `results`: beside the connections, so many event streams of the attacker, and waits for results.
 * - `leavesEveryMs`: all connections are cut at once after this time, and opened again.
 * - `late`: the holders connect while the attack is under way.
 */
export const ATTACKS = {
  complete: {
    costs: ["memory", "postgres"],
    connections: 16,
    method: "PUT",
    path: () => `/api/tasks/${randomUUID()}/complete`,
    body: (bytes) =>
      `{"leaseId":"${"0".repeat(48)}","fencingToken":1,"task_output":${smallValues(bytes - 100)}}`,
  },
  enqueue: {
    costs: ["memory", "postgres"],
    connections: 32,
    method: "POST",
    path: () => "/api/tasks",
    body: TASK_DATA,
  },
  metrics: {
    costs: ["memory", "postgres"],
    connections: 500,
    method: "GET",
    path: () => "/metrics",
  },
  renewals: {
    costs: ["memory"],
    connections: 300,
    method: "POST",
    path: () => "/v1/leases/renew",
    body: () => bogusRenewals(),
  },
  /** Bodies that never end. */
  uploads: {
    connections: 500,
    method: "POST",
    path: () => "/api/tasks",
    body: TASK_DATA,
    unfinished: true,
  },
  /** Lists of tasks of 4 MiB, which were added while the server took them. */
  lists: {
    connections: 16,
    method: "GET",
    path: () => "/api/tasks/pending?limit=200",
    tasks: 200,
  },
  /** Counts of a large tenant, and lists whose filters match none of its tasks. */
  scans: {
    costs: ["memory", "postgres"],
    connections: 400,
    method: "GET",
    path: () => "/api/tasks/counts",
    also: { method: "GET", path: emptyList },
    tasks: 400_000,
    taskBytes: 100,
    limits: { lateMs: null },
    instances: 4,
    viewer: true,
  },
  /** No key, at full speed. */
  keyless: {
    connections: 400,
    method: "GET",
    path: () => "/v1/capabilities",
    ahead: 1,
  },
  pipelining: {
    connections: 400,
    method: "GET",
    path: () => "/v1/capabilities",
    ahead: 15,
  },
  /** Claims of 100 queues, each of which the store looks up. */
  queues: {
    connections: 100,
    method: "POST",
    path: () => "/api/tasks/next",
    each: () => claimOf(Array.from({ length: 100 }, randomUUID), { waitMs: 0 }),
  },
  /** Claims that wait, with padding, and end together. */
  waits: {
    connections: 400,
    method: "POST",
    path: () => "/api/tasks/next",
    each: () => claimOf([randomUUID()], { waitMs: 2_000 }) + " ".repeat(60_000),
  },
  /** Tasks that wake claims of as many queues as there are connections. */
  notifications: {
    connections: 200,
    method: "POST",
    path: () => "/api/tasks/next",
    each: () => claimOf([randomUUID()], { waitMs: 10_000 }),
    also: { method: "POST", path: () => "/api/tasks", each: () => '{"task_data":1}' },
  },
  pauses: {
    connections: 100,
    method: "PUT",
    path: () => "/v1/pauses",
    each: () => JSON.stringify({ kind: "queue", name: randomUUID(), reason: "attack" }),
  },
  /** Streams that report renewals that are refused. */
  streams: {
    connections: 500,
    method: "GET",
    path: () => "/v1/activity",
    unfinished: true,
    also: { method: "POST", path: () => "/v1/leases/renew", each: () => bogusRenewals(20) },
  },
  /** Streams that are opened and cut together, while others of the tenant change leases. */
  closes: {
    connections: 1_520,
    method: "GET",
    path: () => "/v1/events",
    unfinished: true,
    leavesEveryMs: 3_000,
    few: { one: 76, method: "POST", path: () => "/v1/leases/acquire", each: ownLease },
    late: true,
  },
  /** Claims, streams and waits for results, as many as a tenant may have, while tasks are added. */
  crowds: {
    connections: 920,
    method: "POST",
    path: () => "/api/tasks/next",
    each: () => claimOf(["crowd"], { waitMs: 20_000 }),
    few: {
      one: 46,
      method: "POST",
      path: () => "/api/tasks",
      each: () => '{"queue":"crowd","task_data":1}',
    },
    streams: 2_300,
    results: 400,
    late: true,
  },
  /** Bodies of a reader that arrive a byte at a time and never end: large ones, and small ones, which are more at once. */
  drips: {
    connections: 500,
    method: "POST",
    path: () => "/v1/leases/get",
    each: () => readOf(60_000),
    also: { method: "POST", path: () => "/v1/leases/get", each: () => readOf(12_000), ...DRIPPING },
    ...DRIPPING,
    viewer: true,
  },
};

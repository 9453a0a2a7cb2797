/**
 * Planted by an author who had not read the tests, only the sources and their promises. No test is named for them: any
 * test near the changed source may catch them. Those that none caught at first have tests since.
 */
const LEASEHOLD = "packages/leasehold/src";
const STORES = `${LEASEHOLD}/stores`;
const SERVER = "packages/leasehold-server/src/http";
const HELD_LEASE = `${LEASEHOLD}/lease/held-lease.ts`;
const FENCE_HTTP = `${LEASEHOLD}/fence/http.ts`;
const CONSUL_SESSION = `${STORES}/consul/connection-session.ts`;
const ZOOKEEPER = `${STORES}/zookeeper/decide.ts`;
const KEYS = `${LEASEHOLD}/tasks/keys.ts`;
const KEY_STATEMENTS = `${STORES}/postgres/task-key-statements.ts`;
const REDIS = `${STORES}/redis/scripts.ts`;

export const STRANGERS_1 = [
  {
    name: "stranger-renewals-of-two-lengths",
    what: "Of two callers that ask for other durations while a renewal is in flight, the second gets what the first asked for.",
    file: HELD_LEASE,
    find: "while (ttlMs !== undefined && this.#renewing) await this.#renewing;",
    by: "if (ttlMs !== undefined && this.#renewing) await this.#renewing;",
  },
  {
    name: "stranger-renewal-uses-all-trust",
    what: "A renewal that hangs may take all of the remaining trust, and leaves no time for a retry.",
    file: HELD_LEASE,
    find: "const timeoutMs = Math.max(1, trustLeftMs(this.#trust, clock) / 2);",
    by: "const timeoutMs = Math.max(1, trustLeftMs(this.#trust, clock));",
  },
  {
    name: "stranger-lease-id-after-doubt",
    what: "A waiter whose attempt had no answer asks again under the lease id whose release is under way, which then ends its new grant.",
    file: `${LEASEHOLD}/lease/acquire.ts`,
    find: "\n      // The release may arrive at any time: no request may use this lease id again.\n      contender.leaseId = newLeaseId(random);",
    by: "",
  },
  {
    name: "stranger-overdue-in-a-batch",
    what: "Requests that have waited for longer than their callers do are sent all the same, unless all of their batch have.",
    file: `${LEASEHOLD}/lease/batching.ts`,
    find: "if (!batch.some(({ deadlineMs }) => deadlineMs <= nowMs)) return batch;",
    by: "if (!batch.every(({ deadlineMs }) => deadlineMs <= nowMs)) return batch;",
  },
  {
    name: "stranger-observer-forgets-token",
    what: "After an outage of the store, an observer has forgotten the last token, and may report an earlier term.",
    file: `${LEASEHOLD}/election/observer.ts`,
    find: "return { leader: null, token: last?.token ?? null, self: false, unavailable: true };",
    by: "return { leader: null, token: null, self: false, unavailable: true };",
  },
  {
    name: "stranger-overdue-work-renewed",
    what: "Work that does not stop keeps its lease for as long as it runs: the lease is renewed on.",
    file: `${LEASEHOLD}/election/drain.ts`,
    find: "    lease.letExpire();\n",
    by: "",
    also: [
      {
        file: HELD_LEASE,
        find: "    this.#isLeftBehind = true;\n    this.letExpire();",
        by: "    this.#isLeftBehind = true;",
      },
    ],
  },
  {
    name: "stranger-disconnected-is-admitted",
    what: "A request whose client has gone before it is admitted does its work, and holds up those behind it for ever.",
    file: FENCE_HTTP,
    find: '  if (response.closed) close.abort();\n  else response.once("close", () => close.abort());',
    by: '  response.once("close", () => close.abort());',
    also: [
      {
        find: "const isGone = () => context.req.raw?.signal.aborted ?? false;",
        by: "const isGone = () => over.signal.aborted;",
      },
    ],
  },
  {
    name: "stranger-token-after-the-write",
    what: "A guard keeps a token only when its write has succeeded: an older holder may write over one that failed half-way.",
    file: `${LEASEHOLD}/fence/guard.ts`,
    find: "        place.lastToken = token;\n        return work();",
    by: "        const value = await work();\n        place.lastToken = token;\n        return value;",
    also: [
      {
        file: `${LEASEHOLD}/fence/guard.ts`,
        find: "const running = place.busy.then(() => {",
        by: "const running = place.busy.then(async () => {",
      },
      {
        file: `${LEASEHOLD}/fence/redis.ts`,
        find: "redis.call('SET', KEYS[1], ARGV[1])\nreturn {1, write({unpack(KEYS, 2)}, {unpack(ARGV, 2)})}",
        by: "local value = write({unpack(KEYS, 2)}, {unpack(ARGV, 2)})\nredis.call('SET', KEYS[1], ARGV[1])\nreturn {1, value}",
      },
    ],
  },
  {
    name: "stranger-floor-of-new-rows-only",
    what: "After an operator has raised the floor of tokens, a resource that was leased before may get a token below it.",
    file: `${STORES}/postgres/lease-queue-statements.ts`,
    find: "c.token, (\n        SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = k.namespace\n      )),",
    by: "c.token),",
    also: [
      {
        file: `${STORES}/postgres/lease-lean-statements.ts`,
        find: 'leastToken: "k.least_token",',
        by: 'leastToken: "c.token",',
      },
    ],
  },
  {
    name: "stranger-position-shortened",
    what: "A waiter that asks to be kept for a shorter time loses the time that it was promised before.",
    file: `${LEASEHOLD}/lease/queue.ts`,
    find: "  // Never shorter than promised before.\n  const longer = Math.max(expiresAtMs, waiters[at]?.expiresAtMs ?? 0);\n  return waiters.with(at, { ...waiter, expiresAtMs: longer });",
    by: "  return waiters.with(at, { ...waiter, expiresAtMs });",
    also: [
      {
        file: `${LEASEHOLD}/store-kit/queue-fold.ts`,
        find: "    if (own && own.expiresAtMs >= expiresAtMs) return true;\n",
        by: "",
      },
    ],
  },
  {
    name: "stranger-refused-success-forgets-failures",
    firstMissed: true,
    what: "A success that is refused, because the lease was lost, erases the failures of its key, which is then tried more often than allowed.",
    file: `${STORES}/postgres/once-statements.ts`,
    find: "WHERE f.namespace = $1 AND f.key = $5 AND EXISTS (SELECT FROM recorded)",
    by: "WHERE f.namespace = $1 AND f.key = $5",
  },
  {
    name: "stranger-once-takes-credit",
    firstMissed: true,
    what: "If the transaction of the work was rolled back and another caller has done the work meanwhile, `once` says that this one has run it.",
    file: `${LEASEHOLD}/once/once.ts`,
    find: 'if (record?.state === "done" && record.token === lease.token) {',
    by: 'if (record?.state === "done") {',
  },
  {
    name: "stranger-metadata-of-the-first",
    firstMissed: true,
    what: "Leases of one holder that are acquired at the same time all get the metadata of the first one.",
    file: `${STORES}/redis/lean-calls.ts`,
    find: "    a.queueMs === b.queueMs &&\n    a.metadata === b.metadata;",
    by: "    a.queueMs === b.queueMs;",
    also: [
      {
        file: `${STORES}/postgres/lease-lean-outcomes.ts`,
        find: "areAlike &&= request.ttlMs === ttlMs && (request.metadata ?? null) === metadata;",
        by: "areAlike &&= request.ttlMs === ttlMs;",
      },
    ],
  },
  {
    name: "stranger-token-ahead-forgotten",
    what: "A record whose token is ahead of the clock, which was set back, is forgotten like any other, and the next token is smaller.",
    file: REDIS,
    find: "and expiresAt < before and token < now then",
    by: "and expiresAt < before then",
    also: [
      {
        file: `${STORES}/redis/lease-save.ts`,
        find: "local untilUs = math.max(tonumber(r.token), tonumber(r.expiresAt))",
        by: "local untilUs = tonumber(r.expiresAt)",
      },
    ],
  },
  {
    name: "stranger-bell-and-lock",
    what: "A release wakes all waiters of a resource instead of the one at the head of the queue.",
    file: `${STORES}/etcd/watch.ts`,
    find: "if (!rung.has(`${revision} ${resource}`))",
    by: "if (!rung.has(`${resource} ${revision}`))",
  },
  {
    name: "stranger-newcomer-overtakes",
    what: "A newcomer gets a resource although a waiter has queued since it read the queue.",
    file: `${STORES}/etcd/lease-save.ts`,
    find: "const isNew = record !== null && !changesGrant && served === null;",
    by: "const isNew = record !== null && !changesGrant && served !== null;",
  },
  {
    name: "stranger-session-from-the-answer",
    what: "A client trusts its session from when Consul answered, and so for longer than the session surely lasts.",
    file: CONSUL_SESSION,
    find: "    const sentMs = env.clock.monotonic();\n    // A session of a lost answer",
    by: "    // A session of a lost answer",
    also: [
      {
        find: "    this.#id = id;\n    this.#lastsUntilMs = sentMs + sessionTtlMs;",
        by: "    this.#id = id;\n    this.#lastsUntilMs = env.clock.monotonic() + sessionTtlMs;",
      },
      {
        find: "    const sentMs = env.clock.monotonic();\n    const { status }",
        by: "    const { status }",
      },
      {
        find: "else if (this.#id === id) this.#lastsUntilMs = sentMs + sessionTtlMs;",
        by: "else if (this.#id === id) this.#lastsUntilMs = env.clock.monotonic() + sessionTtlMs;",
      },
    ],
  },
  {
    name: "stranger-renewal-shortens",
    what: "A renewal for a shorter time ends the grant sooner than its holder was promised before.",
    file: ZOOKEEPER,
    find: "const ttlMs = Math.ceil(outcome.remainingMs);",
    by: "const { ttlMs } = request;",
    also: [
      {
        find: "return trusted(outcome, talk, sentMs);",
        by: "return trusted({ ...outcome, remainingMs: ttlMs }, talk, sentMs);",
      },
    ],
  },
  {
    name: "stranger-old-task-frees-dedupe-key",
    firstMissed: true,
    what: "When a finished task is deleted, a second task with its dedupeKey is accepted beside one that is unfinished.",
    file: `${STORES}/memory/task-index.ts`,
    find: "if (name !== null && isUnfinished(state)) this.#deduped.delete(name);",
    by: "if (name !== null) this.#deduped.delete(name);",
  },
  {
    name: "stranger-overtakes-a-crashed-task",
    what: "A task of a key in order starts before the one ahead of it, whose lease has expired and that will run again.",
    file: KEYS,
    find: "  let stuck = Number.POSITIVE_INFINITY;\n  for (const record of running) if (!isLive(record, nowMs)) stuck = Math.min(stuck, record.seq);\n",
    by: "",
    also: [
      { find: "    if (record.seq > stuck) return null;\n", by: "" },
      {
        find: "export function headOfKey({ pending, running }: KeyTasks, nowMs: number)",
        by: "export function headOfKey({ pending }: KeyTasks, nowMs: number)",
      },
      {
        file: KEY_STATEMENTS,
        find: " AND (k.stuck IS NULL OR t.seq < k.stuck)",
        by: "",
      },
    ],
  },
  {
    name: "stranger-window-of-the-future",
    firstMissed: true,
    what: "After the store's clock was set back, a used-up rate keeps its tasks back until the clock has caught up.",
    file: `${LEASEHOLD}/tasks/limits.ts`,
    find: "return last && last.startMs <= nowMs && nowMs < last.startMs + perMs ? last : undefined;",
    by: "return last && nowMs < last.startMs + perMs ? last : undefined;",
    also: [
      {
        file: KEY_STATEMENTS,
        find: "`coalesce(c.now >= ${row}.window_start AND c.now < ${endOf(`${row}.window_start`, perMs)}, false)`",
        by: "`coalesce(c.now < ${endOf(`${row}.window_start`, perMs)}, false)`",
      },
    ],
  },
  {
    name: "stranger-length-of-window-ignored",
    firstMissed: true,
    what: "A declaration that changes only the length of a rate's window is taken for the same limit, and ignored.",
    file: `${STORES}/memory/task-limits.ts`,
    find: "a.running === b.running && a.rate?.limit === b.rate?.limit && a.rate?.perMs === b.rate?.perMs",
    by: "a.running === b.running && a.rate?.limit === b.rate?.limit",
    also: [
      {
        file: `${STORES}/postgres/task-limits.ts`,
        find: "SELECT (l.running_most, l.rate_limit, l.rate_per_ms)\n      IS NOT DISTINCT FROM ($4::int, $5::int, $6::bigint) AS same",
        by: "SELECT (l.running_most, l.rate_limit) IS NOT DISTINCT FROM ($4::int, $5::int) AS same",
      },
    ],
  },
  {
    name: "stranger-pause-made-up-for",
    what: "A schedule that is resumed makes tasks for fire times of its pause.",
    file: `${STORES}/memory/schedules.ts`,
    find: "    const lastFireAtMs = Math.max(nowMs, schedule.lastFireAtMs);\n    this.#change(schedule, { paused: null, lastFireAtMs, dueAtMs: nowMs });",
    by: "    this.#change(schedule, { paused: null, dueAtMs: nowMs });",
    also: [
      {
        file: `${STORES}/postgres/schedule-statements.ts`,
        find: "  last_fire_at = greatest(s.last_fire_at, ${NOW_MS}), due_at = ${NOW_MS}\n",
        by: "  due_at = ${NOW_MS}\n",
      },
    ],
  },
  {
    name: "stranger-chunked-body-weighs-nothing",
    what: "A body without a declared length counts as empty, so a tenant may send any number of the largest bodies at once.",
    file: `${SERVER}/limits/tenant-admission.ts`,
    find: '  if (headers.has("transfer-encoding")) return most;\n',
    by: "",
  },
  {
    name: "stranger-slow-client-slow-store",
    firstMissed: true,
    what: "The time that a client takes to send its body counts as the store's, and lowers how many requests are admitted.",
    file: `${SERVER}/limits/admission.ts`,
    find: 'this.#leave?.("paused");',
    by: "this.#leave?.();",
  },
  {
    name: "stranger-operator-of-queues-unlimited",
    what: "An operator's key that is limited to queues alone may act on everything.",
    file: `${SERVER}/auth/scope.ts`,
    find: 'return role === "operator" && prefixes.length + queues.length > 0;',
    by: 'return role === "operator" && prefixes.length > 0;',
    also: [
      {
        find: "export function isLimited({ role, prefixes, queues = [] }: Caller): boolean {",
        by: "export function isLimited({ role, prefixes }: Caller): boolean {",
      },
    ],
  },
  {
    name: "stranger-read-before-the-revocation",
    what: "A key that was just revoked at this instance is accepted for some seconds more, if it was being read at the time.",
    file: `${SERVER}/auth/authenticate.ts`,
    find: "    this.#known.delete(keyId);\n    this.#reading.delete(keyId);\n",
    by: "    this.#known.delete(keyId);\n",
  },
  {
    name: "stranger-event-between-pieces",
    what: "A stream that has fallen behind misses an event after every 32 KB, without a resync.",
    file: `${SERVER}/events/events.ts`,
    find: "if (text.length >= PIECE_LENGTH) return { text, position: number - 1 };",
    by: "if (text.length >= PIECE_LENGTH) return { text, position: number };",
  },
  {
    name: "stranger-withdrawn-key-of-issuer",
    what: "The first keys of an issuer count for ever: a token is accepted until it expires, although the issuer has withdrawn the key that signed it.",
    file: `${SERVER}/auth/oidc/issuer.ts`,
    find: "keys: await this.#readKeys(configuration), atMs",
    by: "keys: await this.#readKeys(configuration), atMs, ...(this.#known && { keys: this.#known.keys })",
  },
];

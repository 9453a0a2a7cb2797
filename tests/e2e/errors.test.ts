/** Every error that users can meet, caused through the public face, with what it must tell them. */
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import type { PGlite } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../packages/leasehold/src/env/index.js";
import { FENCE_TABLE, fence } from "../../packages/leasehold/src/fence/index.js";
import {
  type AcquireOptions,
  ClosedError,
  connect,
  defineTask,
  type ErrorCode,
  FinalTaskError,
  InvalidOptionError,
  type Lease,
  LeaseholdError,
  LeaseLostError,
  type LeaseOptions,
  type LeaseStore,
  LeaseUnavailableError,
  type LostReason,
  NestedRunError,
  NoTokenError,
  NotLeaderError,
  OnceDoneError,
  OnceFailedError,
  openStores,
  StaleTokenError,
  StillRunningError,
  StoreMisconfiguredError,
  StoreUnavailableError,
  TaskConflictError,
  TaskFailedError,
  TaskTimeoutError,
  TimedOutError,
  type Worker,
  WorkerStuckError,
} from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/index.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { freePort } from "../support/engines/free-port.js";
import { openPglite } from "../support/engines/pglite.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";

/** What the error of a call must be, besides its code. */
interface Expected {
  /** The call; answers what it was rejected with. */
  readonly cause: () => Promise<unknown>;
  readonly kind: new (...args: never[]) => LeaseholdError;
  readonly retryable: boolean;
  readonly outcome: "none" | "unknown";
  /** What went wrong, and what to do about it. */
  readonly message: RegExp;
  readonly fields?: object;
}

/** What a call was rejected with, or has thrown. */
async function refusal(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("the call was not refused");
}

let names = 0;
/** A memory store of its own under a manual clock. */
async function world() {
  const env = manualEnv();
  const name = `memory:errors-${names++}`;
  const stores = await openStores(name, { env });
  const client = (holder: string) => connect(name, { env, holder });
  return { env, name, stores, a: await client("a"), b: await client("b") };
}

/** The store, one method of it replaced. */
function altered<Name extends keyof LeaseStore>(
  store: LeaseStore,
  name: Name,
  method: LeaseStore[Name],
): LeaseStore {
  return new Proxy(store, {
    get(target, property) {
      if (property === name) return method;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

const TTL_MS = 3_000;

/** What makes a lease end in each way, between its acquire and its renewal. */
const LOSSES: Readonly<Record<LostReason, () => Promise<unknown>>> = {
  async expired() {
    const { a, env } = await world();
    const lease = await a.acquire("r", { ttlMs: TTL_MS, autoRenew: false });
    await env.clock.advance(TTL_MS);
    return refusal(() => lease.renew());
  },
  async taken() {
    const { a, b } = await world();
    const lease = await a.acquire("r");
    await b.revoke("r", { free: "now" });
    await b.acquire("r");
    return refusal(() => lease.renew());
  },
  async revoked() {
    const { a, b } = await world();
    const lease = await a.acquire("r");
    await b.revoke("r");
    return refusal(() => lease.renew());
  },
  async gone() {
    const { a, b, env, stores } = await world();
    const lease = await a.acquire("r");
    await b.revoke("r", { free: "now" });
    await env.clock.advance(10);
    expect(await stores.leases.collect(1)).toBe(1);
    return refusal(() => lease.renew());
  },
  async inconsistent() {
    const { stores, env } = await world();
    const leases = await connect(
      altered(stores.leases, "renew", async (requests) =>
        (await stores.leases.renew(requests)).map((outcome) =>
          outcome.status === "renewed" ? { ...outcome, token: outcome.token + 1 } : outcome,
        ),
      ),
      { env },
    );
    const lease = await leases.acquire("r");
    return refusal(() => lease.renew());
  },
};

const lost = Object.entries(LOSSES).map(([reason, cause]): [string, Expected] => [
  reason,
  {
    cause,
    kind: LeaseLostError,
    retryable: true,
    outcome: "unknown",
    message: new RegExp(`^the lease on "r" is lost \\(${reason}\\): .+; stop, and acquire again`),
    fields: { resource: "r", reason },
  },
]);

const misconfigured = { kind: StoreMisconfiguredError, retryable: false, outcome: "none" } as const;
const closed = {
  ...({ kind: ClosedError, retryable: false, outcome: "none" } as const),
  message: /^this .+ is closed: (open another one|acquire again)/,
} as const;

async function withLease(options: AcquireOptions) {
  const { a } = await world();
  return refusal(() => a.acquire("r", options));
}
async function enqueued(options: object) {
  await using tasksClient = await connect("memory:");
  const tasks = tasksClient.tasks;
  return await refusal(() => tasks.enqueue(defineTask("k"), 1, options));
}
async function working(options: object, handlers = [defineTask("k").handle(() => 1)]) {
  await using tasksClient = await connect("memory:");
  const tasks = tasksClient.tasks;
  return await refusal(() => tasks.work(handlers, options));
}
const bad = (value: unknown) => value as never;
const widths = {
  "~standard": {
    version: 1 as const,
    vendor: "test",
    validate: () => ({ issues: [{ message: "must be positive", path: ["sizes", 0, "width"] }] }),
  },
};

/** Refused options: the path that the error must name, and the call. */
/** What a holder does first in its transaction. */
const passing = (token: number) => guarded.transaction((tx) => fence(tx, "r", token));

const OPTIONS: readonly [path: string, cause: () => Promise<unknown>][] = [
  ["ttlMs", () => withLease({ ttlMs: 0 })],
  ["ttlMs", () => withLease({ ttlMs: 1_000.5 })],
  ["ttlMs", () => withLease({ ttlMs: bad("30") })],
  ["ttlMs", () => withLease({ ttlMs: Number.NaN })],
  ["waitMs", () => withLease({ waitMs: -1 })],
  ["marginMs", () => withLease({ marginMs: -1 })],
  ["driftRatio", () => withLease({ driftRatio: 0.6 })],
  ["renewIntervalMs", () => withLease({ ttlMs: 1_000, renewIntervalMs: 900 })],
  ["signal", () => withLease({ signal: bad({}) })],
  ["metadata.job", () => withLease({ metadata: { job: bad(5) } })],
  ["metadata", () => withLease({ metadata: { job: "x".repeat(5_000) } })],
  ["ttl", () => withLease(bad({ ttl: 5 }))],
  ["resource", async () => refusal(async () => (await world()).a.acquire(""))],
  ["resource", async () => refusal(async () => (await world()).a.acquire("\ud800"))],
  ["resource", async () => refusal(async () => (await world()).a.get("a\0b"))],
  ["work", async () => refusal(async () => (await world()).a.run("r", bad("work")))],
  ["free", async () => refusal(async () => (await world()).a.revoke("r", { free: bad("soon") }))],
  [
    "expectedToken",
    async () => refusal(async () => (await world()).a.revoke("r", { expectedToken: 0 })),
  ],
  ["when", async () => refusal(async () => (await world()).a.revoke("r", bad({ when: "now" })))],
  ["limit", async () => refusal(async () => (await world()).a.list({ limit: 0 }))],
  ["state", async () => refusal(async () => (await world()).a.list(bad({ state: "live" })))],
  ...(["acquireRetries", "acquireRetryDelayMs"] as const satisfies (keyof LeaseOptions)[]).map(
    (name): [string, () => Promise<unknown>] => [
      name,
      async () => refusal(async () => (await world()).a.reusableLease("r", { [name]: -1 })),
    ],
  ),
  ["source", () => refusal(() => connect("mysql://localhost"))],
  ["url", () => refusal(() => connect("http://user:secret@localhost"))],
  ["url: ?watch", () => refusal(() => connect("postgres://localhost/app?watch=push"))],
  ["connectTimeoutMs", () => refusal(() => connect("memory:", { connectTimeoutMs: 0 }))],
  ["closeOnSignals", () => refusal(() => connect("memory:", { closeOnSignals: bad(["SIGKILL"]) }))],
  ["namespace", () => refusal(() => connect("memory:", { namespace: "" }))],
  ["holder", () => refusal(() => connect("memory:", { holder: "x".repeat(300) }))],
  ["graceMs", () => refusal(() => connect("memory:", { graceMs: -1 }))],
  ["ttlMs", () => refusal(() => connect("memory:", { defaults: { ttlMs: 5 } }))],
  ["default", () => refusal(() => connect("memory:", bad({ default: { ttlMs: 500 } })))],
  ["kind", () => refusal(() => defineTask(""))],
  ["maxAttempts", () => refusal(() => defineTask("k", { maxAttempts: 0 }))],
  ["priority", () => enqueued({ priority: 40_000 })],
  ["scheduledAt", () => enqueued({ scheduledAt: new Date(Number.NaN) })],
  ["id", () => enqueued({ id: "" })],
  ["dedupKey", () => enqueued(bad({ dedupKey: "misspelt" }))],
  ["dedupeKey", () => enqueued({ dedupeKey: "" })],
  [
    "data.sizes.0.width",
    async () => {
      await using tasksClient = await connect("memory:");
      const tasks = tasksClient.tasks;
      return await refusal(() => tasks.enqueue(defineTask("k", { schema: widths }), 1));
    },
  ],
  ["concurrency", () => working({ concurrency: 0 })],
  ["queues.1", () => working({ queues: ["a", ""] })],
  ["handlers", () => working({}, [])],
  ["handlers.0", () => working({}, [bad({ kind: "k" })])],
  ["client", () => refusal(() => fence(bad({}), "r", 1))],
  ["token", () => refusal(() => fence({ query: async () => ({ rows: [] }) }, "r", 1.5))],
];

let guarded: PGlite;
beforeAll(async () => {
  guarded = await openPglite();
});
afterAll(() => guarded.close());

const TASK_ID = "01890a5d-ac96-774b-bcce-b302099a8057";

/** All of them: a code without a case does not compile. */
const CASES: Readonly<Record<ErrorCode, readonly [name: string, expected: Expected][]>> = {
  LEASE_LOST: lost,
  LEASE_UNAVAILABLE: [
    [
      "another holder has it",
      {
        async cause() {
          const { a, b, env } = await world();
          await a.acquire("r");
          const refused = refusal(() => b.acquire("r", { waitMs: 700 }));
          await env.clock.advance(701);
          return refused;
        },
        kind: LeaseUnavailableError,
        retryable: true,
        outcome: "none",
        message: /^"r" is held by a; gave up after waitMs = 700: retry later, or raise waitMs$/,
        fields: { resource: "r", holder: "a", waitedMs: 700 },
      },
    ],
  ],
  STORE_UNAVAILABLE: [
    [
      "no HTTP server",
      {
        cause: async () =>
          refusal(async () =>
            connect(`http://127.0.0.1:${await freePort()}`, { connectTimeoutMs: 2_000 }),
          ),
        kind: StoreUnavailableError,
        retryable: true,
        outcome: "none",
        message:
          /ECONNREFUSED.*; nothing has changed: check that a server runs there, or try again$/,
      },
    ],
    [
      "no PostgreSQL server",
      {
        cause: async () =>
          refusal(async () => connect(`postgres://app@127.0.0.1:${await freePort()}/app`)),
        kind: StoreUnavailableError,
        retryable: true,
        outcome: "none",
        message:
          /^PostgreSQL failed: .*ECONNREFUSED.*; nothing has changed: check that a server runs there, or try again$/,
      },
    ],
    [
      "the answer is lost",
      {
        async cause() {
          const { stores } = await world();
          const store = altered(stores.leases, "acquire", async (requests) => {
            await stores.leases.acquire(requests);
            throw new Error("connection reset");
          });
          await using leases = await connect(store);
          return await refusal(() => leases.tryAcquire("r", { ttlMs: 200 }));
        },
        kind: StoreUnavailableError,
        retryable: true,
        outcome: "unknown",
        message:
          /^the store failed: connection reset; the call may have taken effect: check that, or repeat it$/,
      },
    ],
  ],
  STORE_MISCONFIGURED: [
    [
      "a URL that cannot be read",
      {
        ...misconfigured,
        cause: () => refusal(() => connect("postgres://app:secret@host:port/app")),
        message:
          /^the PostgreSQL URL is invalid: a host or a port is wrong; write postgres:\/\/user/,
      },
    ],
    [
      "another server",
      {
        ...misconfigured,
        cause: () => {
          const page = async () => new Response("<html>", { status: 200 });
          return refusal(() => connect(http({ url: "http://127.0.0.1", fetch: page })));
        },
        message: /is this the URL of a Leasehold server\?$/,
      },
    ],
    [
      "no table for the fence",
      {
        ...misconfigured,
        cause: () => refusal(() => passing(1)),
        message: /no leasehold\.check_fence, or no table for it: run FENCE_TABLE/,
      },
    ],
  ],
  INVALID_OPTION: OPTIONS.map(([path, cause], index): [string, Expected] => [
    `${path} (${index})`,
    {
      cause,
      kind: InvalidOptionError,
      retryable: false,
      outcome: "none",
      message: new RegExp(`^${path.replace("?", "\\?")} \\S`),
      fields: { path },
    },
  ]),
  STALE_TOKEN: [
    [
      "a newer holder has passed",
      {
        async cause() {
          await guarded.exec(FENCE_TABLE);
          await passing(8);
          return refusal(() => passing(7));
        },
        kind: StaleTokenError,
        retryable: false,
        outcome: "none",
        message: /^token 7 for "r" is older than 8, which has passed: roll back, and drop/,
        fields: { resource: "r", token: 7, lastToken: 8 },
      },
    ],
  ],
  NO_TOKEN: [
    [
      "a store in the format of others",
      {
        async cause() {
          const { env, stores } = await world();
          const { leases } = stores;
          const foreign = { ...leases.capabilities, tokens: false };
          const own = altered(leases, "capabilities", foreign);
          const client = await connect(own, { env, unfenced: true });
          const lease = await client.acquire("r");
          return refusal(() => (lease as Lease).token);
        },
        kind: NoTokenError,
        retryable: false,
        outcome: "none",
        message: /^the lease on "r" has no fencing token, because .*: remove \?format=/,
        fields: { resource: "r" },
      },
    ],
  ],
  NOT_LEADER: [
    [
      "work for the leader, on a node that does not lead",
      {
        async cause() {
          const { a } = await world();
          return refusal(() => a.elector("r").runIfLeader(() => {}));
        },
        kind: NotLeaderError,
        retryable: true,
        outcome: "none",
        message: /^this node does not lead "r": send the work to the leader, or drop it$/,
        fields: { election: "r" },
      },
    ],
  ],
  STILL_RUNNING: [
    [
      "work that does not heed its signal",
      {
        async cause() {
          const { a, env } = await world();
          let finish = () => {};
          const work = () => new Promise<void>((resolve) => (finish = resolve));
          const singleton = a.singleton("r", work, { graceMs: 0 }).start();
          await env.clock.settle();
          const refused = refusal(() => singleton.close());
          await env.clock.advance(0);
          const error = await refused;
          finish();
          await singleton.close();
          return error;
        },
        kind: StillRunningError,
        retryable: true,
        outcome: "unknown",
        message:
          /^the work on "r" still runs, graceMs = 0 after its signal aborted, so its lease is not released/,
        fields: { resource: "r", graceMs: 0 },
      },
    ],
  ],
  NESTED_RUN: [
    [
      "a run within a run of the same resource",
      {
        async cause() {
          await using leases = await connect("memory:");
          return await leases.run("r", () => refusal(() => leases.run("r", () => 1)));
        },
        kind: NestedRunError,
        retryable: false,
        outcome: "none",
        message: /^this code already runs under the lease on "r", and would wait for itself/,
        fields: { resource: "r" },
      },
    ],
  ],
  TASK_CONFLICT: [
    [
      "an id that another task has",
      {
        async cause() {
          await using leases = await connect("memory:");
          const mail = defineTask("mail");
          const id = "01920000-0000-7000-8000-000000000001";
          await leases.tasks.enqueue(mail, 1, { id });
          return await refusal(() => leases.tasks.enqueue(mail, 2, { id }));
        },
        kind: TaskConflictError,
        retryable: false,
        outcome: "none",
        message: /exists with another kind, queue or data.*: enqueue new work under a new id$/,
        fields: { id: "01920000-0000-7000-8000-000000000001" },
      },
    ],
  ],
  TASK_FAILED: [
    [
      "a handler fails for good",
      {
        async cause() {
          await using leasehold = await connect("memory:", { logger: silentLogger });
          const mail = defineTask("mail");
          const handle = await leasehold.tasks.enqueue(mail, {}, { id: TASK_ID });
          const bounce = () => {
            throw new FinalTaskError("no such address");
          };
          leasehold.tasks.work([mail.handle(bounce)]);
          return await refusal(() => handle.result());
        },
        kind: TaskFailedError,
        retryable: false,
        outcome: "none",
        message:
          /^task 01890a5d-ac96-774b-bcce-b302099a8057 is dead: FinalTaskError: no such address.*; retry it once the cause is removed$/s,
        fields: { id: TASK_ID, state: "dead", error: expect.any(String) as string },
      },
    ],
    [
      "an operator cancels it",
      {
        async cause() {
          await using leasehold = await connect("memory:");
          const { id } = await leasehold.tasks.enqueue(defineTask("mail"), {}, { id: TASK_ID });
          const result = refusal(() => leasehold.tasks.result(id));
          await leasehold.tasks.cancel(id);
          return await result;
        },
        kind: TaskFailedError,
        retryable: false,
        outcome: "none",
        message: /^task \S+ was cancelled; retry it if its output is wanted after all$/,
        fields: { id: TASK_ID, state: "cancelled", error: null },
      },
    ],
    [
      "there is no such task",
      {
        async cause() {
          await using leasehold = await connect("memory:");
          return await refusal(() => leasehold.tasks.result(TASK_ID));
        },
        kind: TaskFailedError,
        retryable: false,
        outcome: "none",
        message:
          /^task \S+ does not exist: it was deleted, or never added; wait for a result after /,
        fields: { id: TASK_ID, state: "unknown", error: null },
      },
    ],
  ],
  ONCE_DONE: [
    [
      "work of a lease that another caller had meanwhile",
      {
        async cause() {
          const { a, b, stores } = await world();
          return await refusal(() =>
            a.once("bill", async () => {
              const options = { free: "now" } as const;
              await a.revoke("once:bill", options);
              await b.once("bill", () => "sent");
              expect(await stores.once?.get({ namespace: "default", key: "bill" })).toBeTruthy();
            }),
          );
        },
        kind: OnceDoneError,
        retryable: false,
        outcome: "none",
        message: /^"bill" was done by b at .*: roll back, and drop this work$/,
        fields: { key: "bill", by: "b", at: "2020-01-01T12:00:00.000Z" },
      },
    ],
  ],
  ONCE_FAILED: [
    [
      "a key whose work has failed maxAttempts times",
      {
        async cause() {
          await using leases = await connect("memory:");
          const work = () => Promise.reject(new Error("the bank is closed"));
          await leases.once("bill", { maxAttempts: 1 }, work).catch(() => {});
          return await refusal(() => leases.once("bill", work));
        },
        kind: OnceFailedError,
        retryable: false,
        outcome: "none",
        message:
          /^"bill" has failed once, the last time with: the bank is closed; remove the cause/,
        fields: { key: "bill", failures: 1, lastError: "the bank is closed" },
      },
    ],
  ],
  TIMED_OUT: [
    [
      "a task has not ended",
      {
        async cause() {
          await using leasehold = await connect("memory:");
          const handle = await leasehold.tasks.enqueue(defineTask("mail"), {});
          return await refusal(() => handle.result({ timeoutMs: 10 }));
        },
        kind: TimedOutError,
        retryable: true,
        outcome: "none",
        message: /^task \S+ has not ended within timeoutMs = 10: wait again, or raise timeoutMs$/,
        fields: { timeoutMs: 10 },
      },
    ],
  ],
  TASK_TIMEOUT: [
    [
      "a handler runs longer than its maxRunMs",
      {
        async cause() {
          await using leasehold = await connect("memory:");
          const hang = defineTask("hang", { maxRunMs: 10 });
          await leasehold.tasks.enqueue(hang, {}, { id: "one" });
          let worker: Worker | undefined;
          const reason = await new Promise((resolve) => {
            const handler = hang.handle(async (_, { signal }) => {
              await new Promise((aborted) => signal.addEventListener("abort", aborted));
              resolve(signal.reason);
            });
            worker = leasehold.tasks.work([handler]);
          });
          await worker?.close();
          return reason;
        },
        kind: TaskTimeoutError,
        retryable: true,
        outcome: "unknown",
        message: /^task one ran longer than 10 ms: raise its maxRunMs, or do less in it$/,
        fields: { id: "one", maxRunMs: 10 },
      },
    ],
  ],
  WORKER_STUCK: [
    [
      "the handlers of a worker ignore that their tasks are cancelled",
      {
        async cause() {
          await using leasehold = await connect("memory:");
          const hang = defineTask("hang");
          const { id } = await leasehold.tasks.enqueue(hang, {});
          const options = { ttlMs: 300, graceMs: 10, maxAbandoned: 0 };
          let begin = () => {};
          const began = new Promise<void>((resolve) => (begin = resolve));
          const handler = hang.handle(() => {
            begin();
            return new Promise(() => {});
          });
          const worker = leasehold.tasks.work([handler], options);
          await began;
          await leasehold.tasks.cancel(id);
          return await refusal(() => worker.done);
        },
        kind: WorkerStuckError,
        retryable: false,
        outcome: "none",
        message: /^the worker claims no more tasks, because 1 handler whose task/,
        fields: { abandoned: 1 },
      },
    ],
  ],
  CLOSED: [
    ...(["acquire", "tryAcquire", "get", "revoke", "list"] as const).map(
      (method): [string, Expected] => [
        `${method} after close()`,
        {
          ...closed,
          async cause() {
            const { stores } = await world();
            // The store is still open: the client is not.
            const leases = await connect(stores.leases);
            await leases.close();
            return refusal(() => (method === "list" ? leases.list() : leases[method]("r")));
          },
        },
      ],
    ),
    [
      "an acquire that waits at close()",
      {
        ...closed,
        async cause() {
          const { a, b } = await world();
          await a.acquire("r");
          const waiting = refusal(() => b.acquire("r"));
          await b.close();
          return waiting;
        },
      },
    ],
    [
      "renew after release()",
      {
        ...closed,
        async cause() {
          const lease = await (await world()).a.acquire("r");
          await lease.release();
          return refusal(() => lease.renew());
        },
      },
    ],
    ...(["enqueue", "work", "list", "cancel"] as const).map((method): [string, Expected] => [
      `tasks.${method} after close()`,
      {
        ...closed,
        message: /^(this client|the store) is closed: open another one/,
        async cause() {
          const tasksClient = await connect("memory:");
          const tasks = tasksClient.tasks;
          await tasksClient.close();
          const kind = defineTask("k");
          const id = "0190163d-8694-739b-aea5-966c26f8ad91";
          return refusal(() => {
            if (method === "enqueue") return tasks.enqueue(kind, 1);
            if (method === "work") return tasks.work([kind.handle(() => 1)]);
            return method === "list" ? tasks.list() : tasks.cancel(id);
          });
        },
      },
    ]),
  ],
};

/** The manual by its headings, as their anchors. */
const sections = new Map(
  readFileSync(new URL("../../docs/errors.md", import.meta.url), "utf8")
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [heading = ""] = section.split("\n", 1);
      return [heading.toLowerCase(), section];
    }),
);

for (const [code, cases] of Object.entries(CASES)) {
  describe(code, () => {
    it.each(cases)("%s", async (_, expected) => {
      check(code, await expected.cause(), expected);
    });

    it("has a section in the manual: what it means, when it comes, what to do", () => {
      const section = sections.get(code.toLowerCase());
      for (const part of ["Means", "When", "Do"]) {
        expect(section).toMatch(new RegExp(`^\\*\\*${part}\\.\\*\\* \\S`, "m"));
      }
    });
  });
}

describePostgres("STORE_MISCONFIGURED on a server", () => {
  it.each([
    ["a database that is not there", (url: URL) => void (url.pathname = "/nowhere"), /create the/],
    ["a user who is not there", (url: URL) => void (url.username = "stranger"), /check the user/],
    [
      "another isolation level",
      (url: URL) =>
        url.searchParams.set("options", "-c default_transaction_isolation=serializable"),
      /ALTER ROLE/,
    ],
  ])("%s", async (_, spoil, message) => {
    const database = await freshDatabase();
    try {
      const url = new URL(database.url);
      spoil(url);
      const error = await refusal(() => connect(url));
      check("STORE_MISCONFIGURED", error, { ...misconfigured, message });
    } finally {
      await database.drop();
    }
  });
});

it("the manual lists no other errors", () => {
  expect([...sections.keys()]).toEqual(Object.keys(CASES).map((code) => code.toLowerCase()));
});

it("the manual lists every reason of a loss", () => {
  const section = sections.get("lease_lost") ?? "";
  const listed = [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, reason]) => reason);
  expect(listed).toEqual(Object.keys(LOSSES));
});

it("a loss is the reason of the signal, and what run() rejects with, whatever the work says", async () => {
  const { a, b } = await world();
  let reason: unknown;
  const error = await refusal(() =>
    a.run("r", async (lease) => {
      await b.revoke("r", { free: "now" });
      await refusal(() => lease.renew());
      reason = lease.signal.reason;
      return "done";
    }),
  );
  expect(error).toBeInstanceOf(LeaseLostError);
  expect(error).toBe(reason);
});

it("an abort rejects with the caller's own reason", async () => {
  const { a } = await world();
  const reason = new Error("enough");
  const signal = AbortSignal.abort(reason);
  expect(await refusal(() => a.acquire("r", { signal }))).toBe(reason);
});

function check(code: string, error: unknown, expected: Omit<Expected, "cause">): void {
  const { kind, retryable, outcome, message, fields = {} } = expected;
  expect(error).toBeInstanceOf(kind);
  if (!(error instanceof LeaseholdError)) throw new Error("an error of another kind");
  expect(error).toMatchObject({ code, retryable, outcome, ...fields });
  expect(error.message).toMatch(message);
  const [file, anchor = ""] = error.docs.split("#");
  expect(file).toBe("node_modules/leasehold/docs/errors.md");
  expect([...sections.keys()]).toContain(anchor);
  expect(anchor).toBe(code.toLowerCase());

  // As it is printed, and as JSON has it.
  const { name, docs } = error;
  const json = JSON.parse(JSON.stringify(error)) as object;
  expect(json).toEqual({
    name,
    code,
    message: error.message,
    retryable,
    outcome,
    docs,
    ...fields,
  });
  const printed = inspect(error);
  expect(printed).toContain(error.message);
  expect(printed).toContain(`docs: '${docs}'`);
  // Neither a lease id nor the password of a URL.
  for (const text of [printed, JSON.stringify(json)]) {
    expect(text).not.toMatch(/\b[0-9a-f]{32,}\b|secret/);
  }
}

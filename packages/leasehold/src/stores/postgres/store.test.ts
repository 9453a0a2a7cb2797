import pg from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
  type PostgresServer,
  startPostgres,
} from "../../../../../tests/support/engines/postgres.js";
import {
  type Clock,
  grantIdOf,
  newLeaseId,
  systemClock,
  systemEnv,
  systemRandom,
  taskIds,
} from "../../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  LeaseStore,
  RenewOutcome,
} from "../../lease/index.js";
import type { ClaimedTask } from "../../tasks/port.js";
import { newTaskOf } from "../../testing/task-suite/new-task.js";
import { openPostgres, type PostgresDatabase } from "./index.js";

const namespace = "n";
const newTaskId = taskIds(systemClock, systemRandom);
function request(resource: string, change: Partial<AcquireRequest> = {}): AcquireRequest {
  const leaseId = newLeaseId(systemEnv.random);
  const holder = `holder of ${grantIdOf(leaseId)}`;
  return { namespace, resource, leaseId, holder, ttlMs: 60_000, ...change };
}
async function acquireOne(store: LeaseStore, asked: AcquireRequest, timeoutMs = 10_000) {
  const [outcome] = await store.acquire([asked], { timeoutMs });
  return outcome as AcquireOutcome;
}

describePostgres("the lease store on a server", () => {
  let fresh: FreshDatabase;
  const databases: PostgresDatabase[] = [];
  const stores: LeaseStore[] = [];
  let admin: pg.Client;
  beforeAll(async () => {
    fresh = await freshDatabase();
    // Simulates many processes: each store has its own connections.
    for (let instance = 0; instance < 8; instance++) {
      databases.push(await openPostgres({ url: fresh.url }, systemEnv));
    }
    stores.push(...databases.map(({ leases }) => leases));
    admin = new pg.Client({ connectionString: fresh.url });
    await admin.connect();
  });
  afterAll(async () => {
    await Promise.all(databases.map((database) => database.close()));
    await admin.end();
    await fresh.drop();
  });
  const storeOf = (index: number) => stores[index % stores.length] as LeaseStore;

  it("grants a key to one of 64 acquirers over separate connections", async () => {
    let lastToken = 0;
    for (let round = 0; round < 5; round++) {
      const requests = Array.from({ length: 64 }, () => request("contended"));
      const outcomes = await Promise.all(
        requests.map(async (asked, index) => {
          let outcome = await acquireOne(storeOf(index), asked);
          // On a busy machine another statement may hold the row longer than the retries last.
          while (outcome.status === "failed" && outcome.applied === "no") {
            outcome = await acquireOne(storeOf(index), asked);
          }
          return outcome;
        }),
      );
      const won = outcomes.findIndex(({ status }) => status === "acquired");
      for (const [index, outcome] of outcomes.entries()) {
        if (index === won) continue;
        expect(outcome).toMatchObject({ status: "held", holder: requests[won]?.holder });
      }
      const winner = outcomes[won] as { token: number };
      expect(winner.token).toBeGreaterThan(lastToken);
      lastToken = winner.token;
      const [released] = await storeOf(round).release([requests[won] as AcquireRequest]);
      expect(released).toEqual({ status: "released" });
    }
  });

  it("never waits for locks: 500 renewals while a transaction has locked one row and one key", async () => {
    const requests = Array.from({ length: 500 }, (_, index) => request(`busy/${index}`));
    await storeOf(0).acquire(requests);
    await admin.query("BEGIN");
    await admin.query("SELECT FROM leasehold.lease WHERE resource = 'busy/7' FOR UPDATE");
    const renewed = await storeOf(0).renew(requests);
    for (const [index, outcome] of renewed.entries()) {
      expect(outcome).toMatchObject(
        index === 7 ? { status: "failed", applied: "no" } : { status: "renewed" },
      );
    }
    // Another client contends for the locked key, and a plain read decides its request.
    expect(await acquireOne(storeOf(1), request("busy/7"))).toMatchObject({ status: "held" });
    await admin.query("ROLLBACK");
    const [again] = await storeOf(0).renew(requests.slice(7, 8));
    expect(again).toMatchObject({ status: "renewed" });
  });

  it("decides 300 grants of one key, or of one task, in one statement", async () => {
    const { leases, tasks } = databases[0] as PostgresDatabase;
    const held = request("of many");
    await acquireOne(leases, held);
    const asked = Array.from({ length: 300 }, (_, index) =>
      index === 150 ? held : request("of many", { ttlMs: 1_000 + index }),
    );
    const outcomesOf = async <Outcome extends { status: string }>(
      call: () => Promise<readonly Outcome[]>,
    ): Promise<string[]> => {
      const sent = vi.spyOn(pg.Client.prototype, "query");
      const outcomes = await call();
      // One decides; tasks that it has passed over are read by a second one.
      expect(sent.mock.calls.length).toBeLessThan(5);
      sent.mockRestore();
      return outcomes.map(({ status }) => status);
    };
    const forHolder = (current: string, others: string) =>
      asked.map((one) => (one === held ? current : others));
    const again = { ...held, ttlMs: 90_000 };
    expect(await outcomesOf(() => leases.renew([...asked, again, held]))).toEqual([
      ...forHolder("renewed", "lost"),
      "renewed",
      "renewed",
    ]);
    // Each is decided in order: the last one asks for less, and no renewal shortens a lease.
    const [view] = await leases.get([held]);
    expect(view?.ttlMs).toBe(held.ttlMs);
    expect(view?.remainingMs).toBeGreaterThan(held.ttlMs);
    expect(await outcomesOf(() => leases.release([...asked, held]))).toEqual([
      ...forHolder("released", "notHeld"),
      "released",
    ]);

    const task = newTaskOf({ namespace, id: newTaskId() });
    await tasks.enqueue([task]);
    const claimed = await tasks.claim({
      namespace,
      claimId: newLeaseId(systemEnv.random),
      holder: "h",
      queues: [task.queue],
      kinds: null,
      limit: 1,
      ttlMs: 60_000,
    });
    const [grant] = (claimed as { tasks: readonly ClaimedTask[] }).tasks as [ClaimedTask];
    const beats = Array.from({ length: 300 }, (_, progress) => ({
      namespace,
      id: task.id,
      leaseId: progress % 2 === 0 ? grant.leaseId : newLeaseId(systemEnv.random),
      token: grant.token,
      ttlMs: 60_000,
      progress,
    }));
    const each = (own: string) => beats.map((_, index) => (index % 2 === 0 ? own : "refused"));
    expect(await outcomesOf(() => tasks.heartbeat(beats))).toEqual(each("renewed"));
    expect((await tasks.get(task))?.progress).toBe(298);
    const completions = beats.map((beat, output) => ({ ...beat, output }));
    expect(await outcomesOf(() => tasks.complete(completions))).toEqual(each("completed"));
    expect((await tasks.get(task))?.output).toBe(0);
  });

  it("renews what a late acquire has locked for the rest of its statement", async () => {
    const pauses: number[] = [];
    const clock: Clock = {
      ...systemClock,
      timer(delayMs, callback, options) {
        if (delayMs > 40) return systemClock.timer(delayMs, callback, options);
        pauses.push(delayMs);
        // The lock is released before the last retry.
        if (delayMs < 40) return systemClock.timer(delayMs, callback, options);
        void (async () => {
          await admin.query("ROLLBACK");
          callback();
        })();
        return { cancel: () => {} };
      },
    };
    const database = await openPostgres({ url: fresh.url }, { ...systemEnv, clock });
    const asked = request("just taken");
    await acquireOne(database.leases, asked);
    await admin.query("BEGIN");
    await admin.query(
      "SELECT FROM leasehold.lease WHERE resource = 'just taken' FOR NO KEY UPDATE",
    );
    pauses.length = 0;
    const [renewed] = await database.leases.renew([asked]);
    await admin.query("ROLLBACK");
    expect(renewed).toMatchObject({ status: "renewed" });
    expect(pauses).toEqual([5, 10, 20, 40]);
    await database.close();
  });

  it("never deadlocks, whatever the order of keys, and keeps tokens growing over collections", async () => {
    const names = Array.from({ length: 40 }, (_, index) => `shuffled/${index}`);
    const tokens = new Map<string, number[]>();
    const failures: unknown[] = [];
    const note = <Outcome extends { status: string }>(outcomes: readonly Outcome[]) => {
      for (const outcome of outcomes) {
        // Locked rows are refused as such; no statement may fail.
        if ("error" in outcome && !/another transaction holds|overtook/.test(`${outcome.error}`)) {
          failures.push(outcome.error);
        }
      }
      return outcomes;
    };
    const member = async (store: LeaseStore, at: number) => {
      const waiting: AcquireRequest[] = [];
      for (let round = 0; round < 12; round++) {
        const order = names.map((name) => ({ name, rank: Math.random() }));
        order.sort((a, b) => a.rank - b.rank);
        const asked = order.map(({ name }) => request(name, { queueMs: 1_000 }));
        const outcomes = note(await store.acquire(asked));
        const held = asked.filter((_, index) => outcomes[index]?.status === "acquired");
        waiting.push(...asked.filter((one) => !held.includes(one)));
        for (const [index, outcome] of outcomes.entries()) {
          if (outcome.status !== "acquired") continue;
          const name = asked[index]?.resource ?? "";
          tokens.set(name, [...(tokens.get(name) ?? []), outcome.token]);
        }
        note(await store.renew([...held].reverse()));
        note(await store.release(held));
        // One collector would suffice; two at once must not disturb each other either.
        if (at < 2) await store.collect(0);
      }
      // Otherwise some resources stay reserved for them for a while.
      note(await store.release(waiting));
    };
    await Promise.all(stores.map(member));
    expect(failures).toEqual([]);
    expect(tokens.size).toBe(names.length);
    for (const granted of tokens.values()) {
      // Recorded in response order, which may differ from grant order.
      expect(new Set(granted).size).toBe(granted.length);
    }
    for (const [name, granted] of tokens) {
      const next = await acquireOne(storeOf(0), request(name));
      expect((next as { token: number }).token).toBeGreaterThan(Math.max(...granted));
    }
  });

  it("refuses a grant that a collection has overtaken", async () => {
    await admin.query("INSERT INTO leasehold.token_floor VALUES ('overtaken', 500)");
    const call = (token: number) =>
      admin.query("SELECT leasehold.above_floor('overtaken', $1)::int AS token", [token]);
    expect((await call(501)).rows).toEqual([{ token: 501 }]);
    await expect(call(500)).rejects.toMatchObject({ code: "40001" });
  });

  it("never lowers the floor of the tokens, whatever is collected later", async () => {
    const ahead = 10 ** 15;
    const collectWith = async (resource: string, token: number) => {
      const asked = request(resource, { namespace: "clock" });
      await storeOf(0).acquire([asked]);
      await storeOf(0).release([asked]);
      // The server's clock was ahead when this token was made.
      await admin.query("UPDATE leasehold.lease SET token = $2 WHERE resource = $1", [
        resource,
        token,
      ]);
      await storeOf(0).collect(0);
    };
    await collectWith("made early", 9 * ahead);
    await collectWith("made late", 8 * ahead);
    const next = await acquireOne(storeOf(0), request("made early", { namespace: "clock" }));
    expect((next as { token: number }).token).toBeGreaterThan(9 * ahead);
  });

  it("collects without minding locked rows, in more than one statement", async () => {
    const requests = Array.from({ length: 2_500 }, (_, index) => request(`old/${index}`));
    await storeOf(0).acquire(requests);
    await storeOf(0).release(requests);
    await admin.query("BEGIN");
    await admin.query("SELECT FROM leasehold.lease WHERE resource = 'old/3' FOR UPDATE");
    await storeOf(0).collect(0);
    const left = await storeOf(0).list({ namespace, prefix: "old/" });
    expect(left.items.map(({ resource }) => resource)).toEqual(["old/3"]);
    await admin.query("ROLLBACK");
    expect(await storeOf(0).collect(0)).toBeGreaterThanOrEqual(1);
  });

  it("stores a waiter until it is served or gives up, and notifies only waiters", async () => {
    const waiters = async () =>
      (await admin.query("SELECT resource FROM leasehold.waiter WHERE resource = 'waited'")).rows;
    const first = request("waited");
    const second = request("waited", { queueMs: 60_000 });
    await acquireOne(storeOf(0), first);
    await acquireOne(storeOf(1), request("waited"));
    expect(await waiters()).toEqual([]);
    await acquireOne(storeOf(1), second);
    await acquireOne(storeOf(1), second);
    expect(await waiters()).toEqual([{ resource: "waited" }]);
    await storeOf(0).release([first]);
    expect(await acquireOne(storeOf(1), second)).toMatchObject({ status: "acquired" });
    expect(await waiters()).toEqual([]);

    await acquireOne(storeOf(2), request("waited", { queueMs: 1 }));
    await vi.waitFor(async () => {
      await storeOf(0).collect(3_600_000);
      expect(await waiters()).toEqual([]);
    });
  });
});

describePostgres("the lease store on a server that stalls or dies", () => {
  let server: PostgresServer;
  let database: PostgresDatabase;
  let store: LeaseStore;
  beforeAll(async () => {
    server = await startPostgres();
    database = await openPostgres({ url: server.url }, systemEnv);
    store = database.leases;
  });
  afterAll(async () => {
    await database?.close();
    await server.remove();
  });

  it("returns applied maybe in time while the server is unavailable", async () => {
    const { rows } = await sessions(server.url);
    for (const { pid } of rows) process.kill(pid, "SIGSTOP");
    const asked = request("stalled");
    const outcome = await acquireOne(store, asked, 100);
    expect(outcome).toMatchObject({ status: "failed", applied: "maybe", retryable: true });
    for (const { pid } of rows) process.kill(pid, "SIGCONT");
    // Repeating the same lease id yields one grant, whether or not the first attempt took effect.
    expect(await acquireOne(store, asked)).toMatchObject({ status: "acquired" });
  });

  it("recovers by itself, keeps its grants, and sends watchers a resync", async () => {
    const asked = request("survivor", { ttlMs: 600_000 });
    const granted = await acquireOne(store, asked);
    const controller = new AbortController();
    const watcher = store.watch(namespace, { signal: controller.signal })[Symbol.asyncIterator]();
    expect((await watcher.next()).value).toEqual({ type: "resync" });

    await server.kill9();
    const renew = async () => (await store.renew([asked]))[0] as RenewOutcome;
    let away = await renew();
    // Each connection that was open says so once.
    while (away.status === "failed" && away.applied === "maybe") away = await renew();
    expect(away).toMatchObject({ status: "failed", applied: "no", retryable: true });
    await server.start();
    expect((await watcher.next()).value).toEqual({ type: "resync" });
    const [renewed] = await store.renew([asked]);
    expect(renewed).toMatchObject({ status: "renewed" });
    const repeated = await acquireOne(store, asked);
    expect(repeated).toMatchObject({ token: (granted as { token: number }).token });
    controller.abort();
    await watcher.next();
  });
});

/** The idle sessions of a store. */
async function sessions(url: string): Promise<{ rows: { pid: number }[] }> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await client.query(
      `SELECT pid FROM pg_stat_activity
       WHERE application_name = 'leasehold' AND query NOT LIKE 'LISTEN%'`,
    );
  } finally {
    await client.end();
  }
}

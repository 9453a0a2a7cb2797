/** What only SQL stores of tasks do: other people's transactions, plans, notifications. */
import type { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  type Clock,
  newLeaseId,
  systemClock,
  systemEnv,
  systemRandom,
  taskIds,
} from "../../packages/leasehold/src/env/index.js";
import type { SqlTransaction } from "../../packages/leasehold/src/lease/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { claimSql } from "../../packages/leasehold/src/stores/postgres/task-claim-statements.js";
import { CLAIM_FIRST } from "../../packages/leasehold/src/stores/postgres/task-lean-statements.js";
import type {
  ClaimRequest,
  EnqueueOptions,
  NewTask,
} from "../../packages/leasehold/src/tasks/port.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import { openPglite } from "../support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const newTaskId = taskIds(systemClock, systemRandom);

function newTask(change: Partial<NewTask> = {}): NewTask {
  return newTaskOf({ namespace: "default", id: newTaskId() }, change);
}

function newClaim(change: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    namespace: "default",
    claimId: newLeaseId(systemRandom),
    holder: "holder",
    queues: ["queue"],
    kinds: null,
    limit: 10,
    ttlMs: 60_000,
    ...change,
  };
}

/** A caller's transaction, as the tests of both engines want it. */
type Transact = (work: (client: SqlTransaction) => Promise<void>) => Promise<void>;

function exerciseTransactions(
  open: () => Promise<{ database: PostgresDatabase; transact: Transact }>,
) {
  let database: PostgresDatabase;
  let transact: Transact;
  beforeAll(async () => {
    ({ database, transact } = await open());
  });

  it("adds tasks if and when the caller's transaction commits", async () => {
    const { tasks } = database;
    const events: unknown[] = [];
    const controller = new AbortController();
    const watched = (async () => {
      const options = { signal: controller.signal };
      for await (const event of tasks.watch("committed", options)) events.push(event);
    })();
    await expect.poll(() => events).toEqual([{ type: "resync" }]);
    const task = newTask({ namespace: "committed", dedupeKey: "key" });
    await transact(async (client) => {
      expect(await tasks.enqueue([task], { client })).toEqual([
        { status: "enqueued", id: task.id },
      ]);
      expect(
        await tasks.enqueue([task, newTask({ ...task, id: newTask().id })], { client }),
      ).toEqual([
        { status: "enqueued", id: task.id },
        { status: "duplicate", id: task.id },
      ]);
      expect(events).toHaveLength(1);
    });
    await expect
      .poll(() => events)
      .toEqual([{ type: "resync" }, { type: "ready", queue: "queue" }]);
    expect(await tasks.get(task)).toMatchObject({ state: "pending" });
    controller.abort();
    await watched;
  });

  it("adds nothing when the caller's transaction is rolled back", async () => {
    const task = newTask({ namespace: "rolled back" });
    const undone = transact(async (client) => {
      await database.tasks.enqueue([task], { client });
      throw new Error("the caller's own trouble");
    });
    await expect(undone).rejects.toThrow("the caller's own trouble");
    expect(await database.tasks.get(task)).toBe(null);
  });
}

describe("PGlite: tasks in the caller's transaction", () => {
  let db: PGlite;
  let database: PostgresDatabase | undefined;
  afterAll(async () => {
    await database?.close();
    await db.close();
  });
  exerciseTransactions(async () => {
    db = await openPglite();
    database = await openPostgres({ db }, systemEnv);
    return { database, transact: (work) => db.transaction((tx) => work(tx)) };
  });
});

describePostgres("PostgreSQL: tasks", () => {
  let fresh: FreshDatabase;
  let database: PostgresDatabase;
  let client: pg.Client;
  /** Of the store's clock beside the system's. */
  let aheadMs = 0;
  /** Called once when the store pauses, which it does for a few milliseconds only. */
  let onPause: (() => Promise<unknown>) | null = null;

  beforeAll(async () => {
    fresh = await freshDatabase();
    const clock: Clock = {
      ...systemClock,
      monotonic: () => systemClock.monotonic() + aheadMs,
      timer(delayMs, callback, options) {
        if (!onPause || delayMs > 100) return systemClock.timer(delayMs, callback, options);
        const paused = onPause();
        onPause = null;
        void (async () => {
          await paused;
          callback();
        })();
        return { cancel() {} };
      },
    };
    database = await openPostgres({ url: fresh.url }, { ...systemEnv, clock });
    client = new pg.Client({ connectionString: fresh.url });
    await client.connect();
  });
  afterAll(async () => {
    await client?.end();
    await database?.close();
    await fresh?.drop();
  });

  it("claims from any number of queues with few statements, whose plans each connection keeps", async () => {
    const pool = new pg.Pool({ connectionString: fresh.url, max: 3 });
    const { tasks, close } = await openPostgres({ pool }, systemEnv);
    const query = vi.spyOn(pg.Client.prototype, "query");
    try {
      const task = newTask({ namespace: "many queues", queue: "q4" });
      await tasks.enqueue([task]);
      const before = query.mock.calls.length;
      const found: string[] = [];
      for (let count = 1; count <= 40; count += 1) {
        const queues = Array.from({ length: count }, (_, at) => `q${at}`);
        const outcome = await tasks.claim(newClaim({ namespace: "many queues", queues }));
        if (outcome.status !== "claimed") throw new Error(JSON.stringify(outcome));
        found.push(...outcome.tasks.map(({ id }) => `${id} among ${count}`));
      }
      expect(found).toEqual([`${task.id} among 5`]);
      const sent: readonly unknown[] = query.mock.calls.slice(before).map(([first]) => first);
      const texts = sent.map((one) => (one as { text: string }).text);
      // Of one queue, two of them; then of 2, 4, 8, 16, 32 and 64. The claimed task has one of its own.
      expect(new Set(texts.filter((text) => text.includes("picked"))).size).toBeLessThan(10);
    } finally {
      query.mockRestore();
      await close();
      await pool.end();
    }
  });

  it("acts on a thousand copies of a task in as few statements as on two", async () => {
    const pool = new pg.Pool({ connectionString: fresh.url });
    const { tasks, close } = await openPostgres({ pool }, systemEnv);
    try {
      const task = {
        namespace: "copies",
        id: systemEnv.clock.wall().toString(16).padStart(32, "0"),
      };
      const copies = Array.from({ length: 1_000 }, () => task);
      const outcomes = async (act: "cancel" | "retry") => {
        const query = vi.spyOn(pg.Client.prototype, "query");
        const answers = await tasks[act](copies);
        const statements = query.mock.calls.length;
        query.mockRestore();
        return { statements, answers: [...new Set(answers.map(({ status }) => status))] };
      };
      for (const act of ["cancel", "retry"] as const) {
        const { statements, answers } = await outcomes(act);
        expect(answers).toEqual(["unknown"]);
        expect(statements, act).toBeLessThan(10);
      }
    } finally {
      await close();
      await pool.end();
    }
  });

  describe("in the caller's transaction", () => {
    exerciseTransactions(async () => ({
      database,
      async transact(work) {
        await client.query("BEGIN");
        try {
          await work(client);
          await client.query("COMMIT");
        } catch (error) {
          await client.query("ROLLBACK");
          throw error;
        }
      },
    }));

    it("refuses a pool, and a client outside of a transaction: neither can undo the task", async () => {
      const pool = new pg.Pool({ connectionString: fresh.url });
      for (const outside of [pool as unknown as SqlTransaction, client]) {
        const task = newTask({ namespace: "outside" });
        expect(await database.tasks.enqueue([task], { client: outside })).toMatchObject([
          {
            status: "failed",
            applied: "no",
            retryable: false,
            error: { code: "INVALID_OPTION", path: "client" },
          },
        ]);
        expect(await database.tasks.get(task)).toBe(null);
      }
      await pool.end();
      // @ts-expect-error A pool is no transaction.
      ({ client: pool }) satisfies EnqueueOptions;
    });

    it("leaves tasks unseen until the commit, and hides them from claims", async () => {
      const task = newTask({ namespace: "unseen" });
      await client.query("BEGIN");
      await database.tasks.enqueue([task], { client });
      expect(await database.tasks.get(task)).toBe(null);
      const claim = newClaim({ namespace: "unseen" });
      expect(await database.tasks.claim(claim)).toEqual({ status: "claimed", tasks: [] });
      await client.query("COMMIT");
      expect(await database.tasks.claim(claim)).toMatchObject({ tasks: [{ id: task.id }] });
    });

    it("answers a failure that says that nothing was applied when the transaction is broken", async () => {
      await client.query("BEGIN");
      await client.query("SELECT 1 / 0").catch(() => {});
      const [outcome] = await database.tasks.enqueue([newTask()], { client });
      expect(outcome).toMatchObject({ status: "failed", applied: "no" });
      await client.query("ROLLBACK");
    });

    it("makes a task of the same dedupeKey wait for the commit, and then find it", async () => {
      const first = newTask({ namespace: "waits", dedupeKey: "key" });
      const second = newTask({ namespace: "waits", dedupeKey: "key" });
      await client.query("BEGIN");
      await database.tasks.enqueue([first], { client });
      const waiting = database.tasks.enqueue([second]);
      await expect
        .poll(async () => {
          const { rows } = await client.query(
            "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
          );
          return rows.length;
        })
        .toBe(1);
      await client.query("COMMIT");
      expect(await waiting).toEqual([{ status: "duplicate", id: first.id }]);
    });
  });

  it("asks again for a row that was locked for a moment, and not for those it has decided", async () => {
    const task = newTask({ namespace: "moment" });
    await database.tasks.enqueue([task]);
    const outcome = await database.tasks.claim(newClaim({ namespace: "moment" }));
    const [held] = outcome.status === "claimed" ? outcome.tasks : [];
    if (!held) throw new Error("the task was not claimed");
    await client.query("BEGIN");
    await client.query("SELECT FROM leasehold.task WHERE id = $1 FOR UPDATE", [task.id]);
    onPause = () => client.query("COMMIT");
    const grant = { namespace: "moment", id: task.id, leaseId: held.leaseId, token: held.token };
    const stale = { ...grant, leaseId: newLeaseId(systemRandom) };
    const outcomes = await database.tasks.complete([
      { ...stale, output: 2 },
      { ...grant, output: 1 },
    ]);
    expect(outcomes).toMatchObject([
      { status: "refused" },
      { status: "completed", repeated: false, output: 1 },
    ]);
    expect(onPause).toBe(null);
  });

  it("notifies once per statement and queue, however many tasks", async () => {
    const payloads: string[] = [];
    client.on("notification", ({ payload }) => payloads.push(payload ?? ""));
    await client.query("LISTEN leasehold");
    const namespace = "notified";
    const tasks = Array.from({ length: 100 }, (_, index) =>
      newTask({ namespace, queue: index % 2 ? "odd" : "even" }),
    );
    await database.tasks.enqueue(tasks);
    await database.tasks.enqueue(tasks);
    await database.tasks.enqueue([newTask({ namespace, queue: "last" })]);
    await expect.poll(() => payloads.at(-1)).toContain('"last"');
    await client.query("UNLISTEN leasehold");
    const queues = payloads.map((payload) => (JSON.parse(payload) as string[])[2] ?? "");
    // "last", sent last, arrives last.
    expect(queues.slice(0, 2).sort((a, b) => a.localeCompare(b))).toEqual(["even", "odd"]);
    expect(queues.slice(2)).toEqual(["last"]);
  });

  it("survives more failures than a power of two can count", async () => {
    const task = newTask({
      namespace: "failures",
      maxAttempts: 32_767,
      backoff: { firstMs: 86_400_000, longestMs: 86_400_000, factor: 100, jitter: 0.5 },
    });
    await database.tasks.enqueue([task]);
    await client.query("UPDATE leasehold.task SET failures = 32000 WHERE id = $1", [task.id]);
    const outcome = await database.tasks.claim(newClaim({ namespace: "failures" }));
    const [held] = outcome.status === "claimed" ? outcome.tasks : [];
    if (!held) throw new Error("the task was not claimed");
    const [failed] = await database.tasks.fail([
      { ...task, leaseId: held.leaseId, token: held.token, error: "again", retryInMs: null },
    ]);
    expect(failed).toMatchObject({ status: "recorded", state: "pending" });
  });

  it("forgets old claims, and keeps those that may come again", async () => {
    const namespace = "forgotten";
    await database.tasks.enqueue([newTask({ namespace }), newTask({ namespace })]);
    const [old, recent] = [newClaim({ namespace, limit: 1 }), newClaim({ namespace, limit: 1 })];
    await database.tasks.claim(old);
    await database.tasks.claim(recent);
    await client.query(
      "UPDATE leasehold.claim SET claimed_at = claimed_at - interval '11 minutes' WHERE claim_id = $1",
      [old.claimId],
    );
    aheadMs += 61_000;
    await database.tasks.reap();
    const { rows } = await client.query(
      "SELECT claim_id FROM leasehold.claim WHERE namespace = $1",
      [namespace],
    );
    expect(rows).toEqual([{ claim_id: recent.claimId }]);
  });

  describe("with a backlog of 20,000", () => {
    const namespace = "backlog";
    beforeAll(async () => {
      for (let batch = 0; batch < 20; batch += 1) {
        await database.tasks.enqueue(
          Array.from({ length: 1_000 }, (_, index) =>
            newTask({ namespace, queue: `queue ${index % 3}`, priority: index % 5 }),
          ),
        );
      }
    }, 60_000);

    for (const analyzed of [false, true]) {
      for (const [text, queues] of [
        [CLAIM_FIRST, ["queue 0"]],
        [claimSql(1, "keyed"), ["queue 0"]],
        [claimSql(3, "plain"), ["queue 0", "queue 1", "queue 2"]],
        [claimSql(3, "keyed"), ["queue 0", "queue 1", "queue 2"]],
      ] as const) {
        const keyed = text.includes("looked") ? ", with keys" : "";
        const statement = `${text === CLAIM_FIRST ? "lean, " : ""}${queues.length} queue(s)${keyed}`;
        const which = `${statement}, ${analyzed ? "analyzed" : "not analyzed yet"}`;
        it(`reads no more of its index than it claims (${which})`, async () => {
          if (analyzed) await client.query("ANALYZE leasehold.task");
          const values = [namespace, "claim", "holder", 60_000, 10, null, 6_000, ...queues];
          await client.query("BEGIN");
          const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
            `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
            values,
          );
          await client.query("ROLLBACK");
          const nodes = rows.flatMap((row) => flatten(row["QUERY PLAN"][0].Plan));
          const scans = nodes.filter((node) => node["Index Name"] === "task_pending");
          expect(scans).toHaveLength(queues.length);
          for (const scan of scans) {
            expect(scan["Node Type"]).toMatch(/^Index (Only )?Scan$/);
            expect(scan["Actual Rows"]).toBeLessThanOrEqual(11);
          }
          for (const node of nodes) {
            expect(node["Actual Rows"] * node["Actual Loops"]).toBeLessThanOrEqual(30);
          }
        });
      }
    }
  });
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Index Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly Plans?: readonly PlanNode[];
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}

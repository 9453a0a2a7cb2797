/** Tasks with large payloads: what the stores return of them, and what leaves the database. */
import type { Socket } from "node:net";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  newLeaseId,
  systemClock,
  systemEnv,
  systemRandom,
  taskIds,
} from "../../packages/leasehold/src/env/index.js";
import { openStores } from "../../packages/leasehold/src/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import type { Json, NewTask, TaskStore } from "../../packages/leasehold/src/tasks/port.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const MEBIBYTE = 1024 * 1024;
/** More than the database sends without payloads. */
const FEW_BYTES = 200_000;
const newTaskId = taskIds(systemClock, systemRandom);

function newTask(namespace: string, data: Json, priority = 0): NewTask {
  return newTaskOf({ namespace, id: newTaskId() }, { data, priority });
}

async function claim(tasks: TaskStore, namespace: string) {
  const outcome = await tasks.claim({
    namespace,
    claimId: newLeaseId(systemRandom),
    holder: "holder",
    queues: ["queue"],
    kinds: null,
    limit: 100,
    ttlMs: 60_000,
  });
  if (outcome.status === "failed") throw outcome.error;
  return outcome.tasks.map((task) => ({ ...task, namespace }));
}

/** Larger than a request to a server may be. */
async function claimsTheLargestAlone(tasks: TaskStore): Promise<void> {
  const namespace = "largest";
  const sizes = [17 * MEBIBYTE, 10, 17 * MEBIBYTE, 10];
  const added = sizes.map((size, n) => newTask(namespace, "x".repeat(size), n));
  for (const task of added) await tasks.enqueue([task]);
  const claimed: string[][] = [];
  for (const _ of added) claimed.push((await claim(tasks, namespace)).map(({ id }) => id));
  const [first, second, third, fourth] = added.map(({ id }) => id);
  expect(claimed).toEqual([[first], [second], [third], [fourth]]);
}

it("memory: a task that is larger than a claim may be is claimed alone", async () => {
  const { tasks, close } = await openStores("memory:");
  await claimsTheLargestAlone(tasks);
  await close();
});

/** The outputs of one namespace are too much together, and do not refuse those of another in the same batch. */
async function boundsOutputsByNamespace(tasks: TaskStore): Promise<void> {
  const done = [];
  for (const namespace of ["one", "one", "other", "one"]) {
    await tasks.enqueue([newTask(namespace, null)]);
    const [task] = await claim(tasks, namespace);
    if (!task) throw new Error("nothing claimed");
    done.push({ ...task, output: "x".repeat(200 * 1_024) });
  }
  const first = await tasks.complete(done);
  expect(first.map(({ status }) => status)).toEqual(done.map(() => "completed"));
  const again = await tasks.complete(done);
  expect(again.map(({ status }) => status)).toEqual(["completed", "failed", "completed", "failed"]);
  const copies = await tasks.complete([done[2]!, done[0]!, done[0]!, done[2]!]);
  expect(copies.map(({ status }) => status)).toEqual([
    "completed",
    "completed",
    "failed",
    "failed",
  ]);
}

it("memory: the repeated completes of one namespace leave room for another's", async () => {
  const { tasks, close } = await openStores("memory:");
  await boundsOutputsByNamespace(tasks);
  await close();
});

describePostgres("PostgreSQL", () => {
  let fresh: FreshDatabase;
  let pool: pg.Pool;
  let database: PostgresDatabase;
  let tasks: TaskStore;
  const sockets: Socket[] = [];

  beforeAll(async () => {
    fresh = await freshDatabase();
    pool = new pg.Pool({ connectionString: fresh.url });
    pool.on("connect", (client) => {
      sockets.push((client as unknown as { connection: { stream: Socket } }).connection.stream);
    });
    database = await openPostgres({ pool }, systemEnv);
    ({ tasks } = database);
  });
  afterAll(async () => {
    await database?.close();
    await pool?.end();
    await fresh?.drop();
  });

  /** What the database has sent for a call. */
  async function received<T>(call: () => Promise<T>): Promise<{ bytes: number; outcome: T }> {
    const read = () => sockets.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
    const before = read();
    const outcome = await call();
    return { bytes: read() - before, outcome };
  }

  it("a task that is larger than a claim may be is claimed alone", async () => {
    await claimsTheLargestAlone(tasks);
  });

  it("payloads leave the database only if a call returns them", async () => {
    const namespace = "few bytes";
    // Random, because the database compresses.
    const large = (size: number) =>
      Array.from({ length: size / 32 }, () => newLeaseId(systemRandom)).join("");
    const data = large(320_000);
    const added = Array.from({ length: 20 }, () => newTask(namespace, { data, n: 1 }));
    await tasks.enqueue(added);

    const listed = await received(() => tasks.list({ namespace }));
    expect(listed.outcome.items).toHaveLength(20);
    expect(listed.bytes).toBeLessThan(FEW_BYTES);

    const others = added.map((task) => ({ ...task, data: 1 }));
    const conflicts = await received(() => tasks.enqueue(others));
    expect(conflicts.outcome.every(({ status }) => status === "conflict")).toBe(true);
    expect(conflicts.bytes).toBeLessThan(FEW_BYTES);
    const repeated = await tasks.enqueue(added.map((task) => ({ ...task, data: { n: 1, data } })));
    expect(repeated.every(({ status }) => status === "enqueued")).toBe(true);

    const held = await claim(tasks, namespace);
    expect(held.map((task) => task.data)).toEqual(added.map((task) => task.data));
    await tasks.complete(held.map((task) => ({ ...task, output: data })));
    const late = await received(() => tasks.heartbeat(held.map((task) => ({ ...task, ttlMs: 9 }))));
    expect(late.outcome).toEqual(held.map(() => ({ status: "refused", reason: "finished" })));
    expect(late.bytes).toBeLessThan(FEW_BYTES);
    // Of twenty outputs of 320 kB, one: less than what most answers may have, but no task is left without its own.
    const again = await received(() =>
      tasks.complete(held.map((task) => ({ ...task, output: 0 }))),
    );
    expect(again.outcome.filter(({ status }) => status === "completed")).toHaveLength(1);
    expect(again.bytes).toBeLessThan(data.length + FEW_BYTES);
  });

  it("the repeated completes of one namespace leave room for another's", async () => {
    await boundsOutputsByNamespace(tasks);
  });
});

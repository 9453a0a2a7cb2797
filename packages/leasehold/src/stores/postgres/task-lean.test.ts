/**
 * The lean statements of tasks: what they decide in one statement, and that they leave to the general statements
 * whatever their conditions exclude.
 */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { freshPglite } from "../../../../../tests/support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/engines/postgres.js";
import {
  claimDigestOf,
  grantIdOf,
  newLeaseId,
  systemClock,
  systemEnv,
  systemRandom,
  taskIds,
  taskLeaseId,
} from "../../env/index.js";
import type { ClaimRequest, CompleteRequest, Json, NewTask } from "../../tasks/port.js";
import { newTaskOf } from "../../testing/task-suite/new-task.js";
import { openPostgres, type PostgresDatabase } from "./index.js";

const newTaskId = taskIds(systemClock, systemRandom);
const MEBIBYTE = 1024 * 1024;
/** Above any clock in microseconds. */
const LATE_TOKEN = 2 ** 52;

function exercise(open: () => Promise<{ url: string } | { directory: string }>) {
  let database: PostgresDatabase;
  beforeAll(async () => {
    database = await openPostgres(await open(), systemEnv);
  });
  afterAll(() => database?.close());

  const write = (text: string, ids: readonly string[]) =>
    database.connections.backend.general.query(
      `UPDATE leasehold.task SET ${text} WHERE id = ANY ($1::text[])`,
      [ids],
    );
  async function seqOf(id: string) {
    const text = "SELECT seq FROM leasehold.task WHERE id = $1";
    const rows = await database.connections.backend.general.query<{ seq: number }>(text, [id]);
    return rows[0]?.seq ?? 0;
  }
  /** How many statements a call sends. */
  async function counted<T>(call: () => Promise<T>) {
    const sent = vi.spyOn(database.connections.backend.general, "query");
    try {
      return { result: await call(), statements: sent.mock.calls.length };
    } finally {
      sent.mockRestore();
    }
  }
  async function enqueue(namespace: string, changes: readonly Partial<NewTask>[]) {
    const tasks = changes.map((change) => newTaskOf({ namespace, id: newTaskId() }, change));
    await database.tasks.enqueue(tasks);
    return tasks.map(({ id }) => id);
  }
  const requestOf = (namespace: string, change: Partial<ClaimRequest> = {}): ClaimRequest => ({
    namespace,
    claimId: newLeaseId(systemRandom),
    holder: "worker",
    queues: ["queue"],
    kinds: null,
    limit: 100,
    ttlMs: 60_000,
    ...change,
  });
  async function claim(request: ClaimRequest) {
    const outcome = await database.tasks.claim(request);
    if (outcome.status === "failed") throw outcome.error;
    return outcome.tasks;
  }
  /** Enqueues and claims: how they are completed, in the order of their ids. */
  async function claimed(namespace: string, count: number): Promise<CompleteRequest[]> {
    await enqueue(namespace, new Array(count).fill({}));
    const tasks = await claim(requestOf(namespace));
    expect(tasks).toHaveLength(count);
    return tasks.map(({ id, leaseId, token }, n) => ({ namespace, id, leaseId, token, output: n }));
  }
  const stateOf = async ({ namespace, id }: { namespace: string; id: string }) =>
    (await database.tasks.get({ namespace, id }))?.state;

  describe("a batch of completions", () => {
    const done = (output: Json, repeated = false) => ({ status: "completed", repeated, output });

    it("of live grants is one statement, in whatever order, and each is in the history", async () => {
      const namespace = "live";
      const outputs: Json[] = [null, 0, '{"a,b"}\\', { é: [null, "x"] }, ""];
      const tasks = (await claimed(namespace, outputs.length))
        .map((task, at) => ({ ...task, output: outputs[at] as Json }))
        .reverse();
      const { result, statements } = await counted(() => database.tasks.complete(tasks));
      expect(result).toEqual(tasks.map(({ output }) => done(output)));
      expect(statements).toBe(1);
      for (const { id, leaseId, token, output } of tasks) {
        const grant = { grantId: grantIdOf(leaseId), token, holder: "worker" };
        const attempt = { ...grant, attempt: 1, ttlMs: 60_000, result: "done", error: null };
        expect(await database.tasks.get({ namespace, id })).toMatchObject({
          state: "done",
          output,
          attempts: [attempt],
        });
      }
    });

    it("completes none whose lease id, token, state or time is not that of a live grant", async () => {
      const namespace = "not live";
      const tasks = await claimed(namespace, 8);
      const [otherId, otherToken, expired, cancelled, returned, finished, gone, live] = tasks;
      const batch = [
        { ...otherId!, leaseId: otherToken!.leaseId },
        { ...otherToken!, token: otherToken!.token - 1 },
        expired!,
        cancelled!,
        returned!,
        finished!,
        { ...gone!, id: newTaskId() },
        live!,
      ];
      await write("expires_at = clock_timestamp() - interval '1 ms'", [expired!.id]);
      await database.tasks.cancel([cancelled!]);
      await write("state = 'pending'", [returned!.id]);
      await database.tasks.complete([{ ...finished!, output: "first" }]);
      const { result, statements } = await counted(() => database.tasks.complete(batch));
      const refused = (reason: string) => ({ status: "refused", reason });
      expect(result).toEqual([
        refused("taken"),
        refused("taken"),
        refused("expired"),
        refused("cancelled"),
        refused("expired"),
        done("first", true),
        refused("unknown"),
        done(7),
      ]);
      expect(statements).toBe(3);
      expect(await stateOf(otherId!)).toBe("running");
      expect(await stateOf(otherToken!)).toBe("running");
      expect(await stateOf(expired!)).toBe("running");
    });

    it("completes a task that it names twice once, with the first output", async () => {
      const [twice, once] = (await claimed("twice", 2)) as [CompleteRequest, CompleteRequest];
      const other = { ...twice, output: "second" };
      const upper = { ...twice, id: twice.id.toUpperCase() };
      const first = { ...twice, output: "first" };
      expect(await database.tasks.complete([first, once, other, upper])).toEqual([
        done("first"),
        done(1),
        done("first", true),
        { status: "refused", reason: "unknown" },
      ]);
      const view = await database.tasks.get(twice);
      expect([view?.output, view?.attempts.length]).toEqual(["first", 1]);
    });

    it("finds a stale and a live grant of one task, whichever comes first", async () => {
      for (const isFirst of [true, false]) {
        const [task] = (await claimed("again", 1)) as [CompleteRequest];
        await database.tasks.requeue([task]);
        const [now] = await claim(requestOf("again"));
        const live = { ...task, leaseId: now!.leaseId, token: now!.token, output: "live" };
        const outcomes = await database.tasks.complete(isFirst ? [live, task] : [task, live]);
        expect(outcomes[isFirst ? 0 : 1]).toEqual(done("live"));
        expect(outcomes[isFirst ? 1 : 0]).toMatchObject({ status: "refused" });
      }
    });

    it("of several namespaces completes the tasks of each", async () => {
      const tasks = [...(await claimed("one", 2)), ...(await claimed("two", 2))];
      expect(await database.tasks.complete(tasks)).toEqual([0, 1, 0, 1].map((n) => done(n)));
      for (const task of tasks) expect(await stateOf(task)).toBe("done");
      // The same id in another namespace is another task, even under the same lease id and token.
      const [id = ""] = await enqueue("mine", [{}]);
      await database.tasks.enqueue([newTaskOf({ namespace: "theirs", id })]);
      const claimId = newLeaseId(systemRandom);
      const [mine] = await claim(requestOf("mine", { claimId }));
      await claim(requestOf("theirs", { claimId }));
      const { leaseId, token } = mine!;
      await write(`token = ${token}, lease_id = '${leaseId}'`, [id]);
      const [first] = (await claimed("theirs", 1)) as [CompleteRequest];
      const task = { namespace: "mine", id, leaseId, token, output: 1 };
      expect(await database.tasks.complete([first, task])).toEqual([done(0), done(1)]);
      expect(await stateOf(task)).toBe("done");
      expect(await stateOf({ namespace: "theirs", id })).toBe("running");
    });

    it("takes names that no task can have, and what is no lease id", async () => {
      const [task] = (await claimed("odd", 1)) as [CompleteRequest];
      const odd = [
        { ...task, id: "\0" },
        { ...task, id: "null" },
        { ...task, id: '","' },
        { ...task, id: newTaskId(), namespace: "\0" },
        { ...task, leaseId: '","' },
        { ...task, leaseId: "" },
        { ...task, token: 0.5 },
        { ...task, token: Number.NaN },
      ];
      for (const request of odd) {
        const [outcome, other] = await database.tasks.complete([request, request]);
        expect([outcome?.status, other?.status]).toEqual(["refused", "refused"]);
        expect(await stateOf(task)).toBe("running");
      }
      expect(await database.tasks.complete([])).toEqual([]);
    });
  });

  describe("a claim from one queue", () => {
    it("is one statement, whether it finds tasks or none", async () => {
      const namespace = "first";
      const empty = await counted(() => claim(requestOf(namespace)));
      expect(empty).toEqual({ result: [], statements: 1 });
      await enqueue(namespace, [{}, {}]);
      const full = await counted(() => claim(requestOf(namespace, { queues: ["queue", "queue"] })));
      expect([full.result.length, full.statements]).toEqual([2, 1]);
      const late = requestOf(namespace);
      expect(await claim(late)).toEqual([]);
      // A claim that took nothing is not recorded.
      await enqueue(namespace, [{}]);
      expect(await claim(late)).toHaveLength(1);
    });

    it("returns what a task has beside the usual values", async () => {
      const namespace = "values";
      const settings = { priority: -5, dedupeKey: "key", maxAttempts: 9, maxRunMs: 3_000 };
      const change = { ...settings, kind: "other", version: 2 };
      const scheduledAt = "2001-02-03T04:05:06.789Z";
      const [id] = (await enqueue(namespace, [{ ...change, data: { n: 1 }, scheduledAt }])) as [
        string,
      ];
      await write(
        `attempt = 6, failures = 2, crashes = 3, postponed = 4, holder = 'before', token = ${LATE_TOKEN},
           checkpoint = '{"row":5}'`,
        [id],
      );
      const request = requestOf(namespace, {
        kinds: ["kind", "other"],
        versions: { other: 2 },
        ttlMs: 5_000,
        graceMs: 1_500,
      });
      const [task] = await claim(request);
      expect(task).toEqual({
        ...change,
        id,
        queue: "queue",
        data: { n: 1 },
        leaseId: taskLeaseId(claimDigestOf(request.claimId), await seqOf(id)),
        token: LATE_TOKEN + 1,
        attempt: 7,
        failures: 2,
        crashes: 3,
        scheduledAt,
        previousHolder: "before",
        checkpoint: { row: 5 },
        postponed: 4,
        ttlMs: 5_000,
        remainingMs: 4_500,
        expiresAt: expect.any(String),
      });
      const view = await database.tasks.get({ namespace, id });
      expect(view?.expiresAt).toBe(task?.expiresAt);
    });

    it("returns its own tasks when it is repeated, and takes no others", async () => {
      const namespace = "repeated";
      const ids = await enqueue(namespace, [{}, {}]);
      const request = requestOf(namespace, { limit: 2 });
      const tasks = await claim(request);
      await enqueue(namespace, [{}]);
      const again = await claim(request);
      expect(again.map(({ id }) => id)).toEqual(ids);
      expect(again.map(({ leaseId, token }) => [leaseId, token])).toEqual(
        tasks.map(({ leaseId, token }) => [leaseId, token]),
      );
      expect(await database.tasks.counts(namespace)).toMatchObject({ pending: 1, running: 2 });
      await expect(claim({ ...request, holder: "another" })).rejects.toMatchObject({
        code: "INVALID_OPTION",
      });
    });

    it("ends before the task with which its data would be too much", async () => {
      const namespace = "large";
      const large = () => ({ data: "x".repeat(7 * MEBIBYTE) });
      const ids = await enqueue(namespace, [large(), large(), large(), {}]);
      const first = await claim(requestOf(namespace));
      expect(first.map(({ id }) => id)).toEqual(ids.slice(0, 2));
      const second = await claim(requestOf(namespace));
      expect(second.map(({ id }) => id)).toEqual(ids.slice(2));
    });
  });
}

describe("PGlite", () => {
  let remove = async () => {};
  afterAll(() => remove());
  exercise(async () => {
    const fresh = await freshPglite();
    remove = fresh.remove;
    return fresh;
  });
});

describePostgres("PostgreSQL", () => {
  let fresh: FreshDatabase;
  exercise(async () => {
    fresh = await freshDatabase();
    return { url: fresh.url };
  });
  afterAll(() => fresh?.drop());

  it("no statement waits for a row that another transaction has locked", async () => {
    const { url } = fresh;
    const database = await openPostgres({ url }, systemEnv);
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    const namespace = "locked";
    const tasks = [1, 2, 3].map(() => newTaskOf({ namespace, id: newTaskId() }, {}));
    await database.tasks.enqueue(tasks);
    const lock = async (at: number) => {
      await other.query("BEGIN");
      await other.query("SELECT FROM leasehold.task WHERE id = $1 FOR UPDATE", [tasks[at]?.id]);
    };
    const claim = { holder: "worker", queues: ["queue"], kinds: null, limit: 10, ttlMs: 60_000 };
    await lock(0);
    const outcomes = [];
    for (const _ of [1, 2]) {
      const claimId = newLeaseId(systemRandom);
      outcomes.push(await database.tasks.claim({ ...claim, namespace, claimId }));
      await other.query("ROLLBACK");
    }
    const held = outcomes.flatMap((outcome) => (outcome.status === "claimed" ? outcome.tasks : []));
    expect(held.map(({ id }) => id)).toEqual([tasks[1]?.id, tasks[2]?.id, tasks[0]?.id]);
    await lock(1);
    const completed = await database.tasks.complete(
      held.map(({ id, leaseId, token }) => ({ namespace, id, leaseId, token, output: null })),
    );
    await other.query("ROLLBACK");
    expect(completed).toMatchObject([
      { status: "failed", applied: "no", retryable: true },
      { status: "completed" },
      { status: "completed" },
    ]);
    await other.end();
    await database.close();
  });
});

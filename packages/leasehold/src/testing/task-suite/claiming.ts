/** Who gets which task, in which order, and what a claim answers. */
import {
  claimDigestOf,
  grantIdOf,
  newLeaseId,
  systemRandom,
  taskLeaseId,
} from "../../env/index.js";
import { LONG_TTL_MS, numberOf, type Section } from "./fixture.js";

const HOUR_MS = 3_600_000;
/**
 * A store may word its times by another clock than it measures by; between two answers that clock
 * may have been set, by milliseconds on any machine whose time is kept right.
 */
const CLOCKS_APART_MS = 1_000;

function apartMs(a: string | null | undefined, b: string | null): number {
  return Math.abs(Date.parse(a ?? "") - Date.parse(b ?? ""));
}

export const claiming: Section = (test, expect) => {
  test("answers all that a worker needs", async (fixture) => {
    const { id } = await fixture.add({ data: { n: 1 }, dedupeKey: "key", priority: 5 });
    const request = fixture.claimRequest({ ttlMs: 60_000 });
    const outcome = await fixture.store.claim(request);
    const { createdAt, scheduledAt, expiresAt } = await fixture.view({ id });
    expect(scheduledAt).toBe(createdAt);
    expect(outcome).toMatchObject({
      status: "claimed",
      tasks: [
        {
          id,
          kind: "kind",
          queue: "queue",
          priority: 5,
          data: { n: 1 },
          attempt: 1,
          failures: 0,
          crashes: 0,
          maxAttempts: 3,
          dedupeKey: "key",
          scheduledAt,
          previousHolder: null,
          ttlMs: 60_000,
        },
      ],
    });
    const task = outcome.status === "claimed" ? outcome.tasks[0] : undefined;
    const seq = task ? numberOf(task) : 0;
    expect(task?.leaseId).toBe(taskLeaseId(claimDigestOf(request.claimId), seq));
    expect(apartMs(task?.expiresAt, expiresAt)).toBeLessThanOrEqual(CLOCKS_APART_MS);
    expect(Number.isSafeInteger(task?.token)).toBe(true);
    expect(task?.remainingMs).toBeLessThanOrEqual(60_000);
    expect(task?.remainingMs).toBeGreaterThan(0);
  });

  test("shows who runs what", async (fixture) => {
    const held = await fixture.addAndHold({}, { holder: "worker 1", ttlMs: 60_000 });
    const view = await fixture.view(held);
    expect(view).toMatchObject({
      state: "running",
      holder: "worker 1",
      token: held.token,
      grantId: grantIdOf(held.leaseId),
      attempt: 1,
      heartbeatAt: null,
      finishedAt: null,
    });
    expect(view.remainingMs).toBeGreaterThan(0);
    expect(view.remainingMs).toBeLessThanOrEqual(60_000);
    const lastsMs = Date.parse(view.expiresAt ?? "") - Date.parse(view.startedAt ?? "");
    expect(Math.abs(lastsMs - 60_000)).toBeLessThanOrEqual(1);
  });

  test("goes by priority, then scheduledAt, then id, and takes no more than asked", async (fixture) => {
    const past = (ms: number) => new Date(Date.UTC(2019, 0) - ms).toISOString();
    const ids = await fixture.addAll([
      { priority: 1, scheduledAt: past(5_000) },
      { priority: 0, scheduledAt: past(1_000) },
      { priority: 0, scheduledAt: past(2_000) },
      { priority: 0, scheduledAt: past(1_000) },
      { priority: -32_768 },
      { priority: 32_767, scheduledAt: past(9_000) },
      { priority: 0 },
    ]);
    const expected = [4, 2, 1, 3, 6, 0, 5].map((index) => ids[index]);
    const claimed: string[] = [];
    for (const limit of [2, 1, 3, 3, 3]) {
      const tasks = await fixture.claim({ limit });
      expect(tasks.length).toBeLessThanOrEqual(limit);
      claimed.push(...tasks.map(({ id }) => id));
    }
    expect(claimed).toEqual(expected);
  });

  test("leaves a task alone until it is due", async (fixture) => {
    await fixture.inTime(async (dueInMs) => {
      const queue = `due in ${dueInMs}`;
      const { createdAt } = await fixture.view(await fixture.add({ queue: "aside" }));
      const at = (ms: number) => new Date(Date.parse(createdAt) + ms).toISOString();
      // More urgent, but not yet.
      const [later, soon, now] = await fixture.addAll([
        { queue, priority: -1, scheduledAt: at(HOUR_MS) },
        { queue, priority: -2, scheduledAt: at(dueInMs) },
        { queue },
      ]);
      const claimed = await fixture.claim({ queues: [queue] });
      if (claimed.length > 1) return false;
      expect(claimed.map(({ id }) => id)).toEqual([now]);
      await fixture.pass(dueInMs);
      const [due, ...rest] = await fixture.claim({ queues: [queue] });
      expect([due?.id, due?.scheduledAt, rest]).toEqual([soon, at(dueInMs), []]);
      expect((await fixture.view({ id: later ?? "" })).state).toBe("pending");
      return true;
    });
  });

  test("takes from the queues that it names, by their common order", async (fixture) => {
    const ids = await fixture.addAll([
      { queue: "a", priority: 3 },
      { queue: "b", priority: 1 },
      { queue: "c", priority: 0 },
      { queue: "a", priority: 2 },
      { queue: "b", priority: 4 },
    ]);
    const claim = async (queues: string[], limit = 100) =>
      (await fixture.claim({ queues, limit })).map(({ id }) => ids.indexOf(id));
    expect(await claim(["none"])).toEqual([]);
    expect(await claim(["a", "b"], 3)).toEqual([1, 3, 0]);
    expect(await claim(["b", "none", "c", "b"])).toEqual([2, 4]);
  });

  test("takes only the kinds that it names", async (fixture) => {
    const ids = await fixture.addAll([
      { kind: "a" },
      { kind: "b" },
      { kind: "c" },
      { kind: "a", queue: "other" },
    ]);
    const claim = async (kinds: string[] | null, queues = ["queue"]) =>
      (await fixture.claim({ kinds, queues })).map(({ id }) => ids.indexOf(id));
    expect(await claim(["none"])).toEqual([]);
    expect(await claim(["c", "a"])).toEqual([0, 2]);
    expect(await claim(["a", "b"], ["queue", "other"])).toEqual([1, 3]);
  });

  test("answers the same tasks when it is repeated", async (fixture) => {
    const ids = await fixture.addAll([{}, {}, {}, {}]);
    const claimId = newLeaseId(systemRandom);
    const request = { claimId, holder: "worker", limit: 2, ttlMs: LONG_TTL_MS };
    const first = await fixture.claim(request);
    expect(first.map(({ id }) => id)).toEqual(ids.slice(0, 2));
    const again = await fixture.claim(request);
    const ofGrant = (tasks: typeof first) =>
      tasks.map(({ id, leaseId, token, attempt }) => ({ id, leaseId, token, attempt }));
    expect(ofGrant(again)).toEqual(ofGrant(first));
    const other = { queues: ["other"], kinds: ["other"], limit: 1, ttlMs: 2 * LONG_TTL_MS };
    const otherwise = await fixture.claim({ ...request, ...other });
    expect(ofGrant(otherwise)).toEqual(ofGrant(first));
    expect(otherwise.map(({ ttlMs }) => ttlMs)).toEqual([LONG_TTL_MS, LONG_TTL_MS]);
    expect((await fixture.claim({ limit: 100 })).map(({ id }) => id)).toEqual(ids.slice(2));
  });

  test("is refused when another holder repeats it", async (fixture) => {
    const { id } = await fixture.add();
    const request = fixture.claimRequest({ holder: "worker" });
    expect((await fixture.claim(request)).map((task) => task.id)).toEqual([id]);
    const claiming = fixture.claim({ ...request, holder: "another" });
    const refused = await claiming.catch((error: unknown) => (error as Error).cause);
    expect(refused).toMatchObject({ code: "INVALID_OPTION", path: "claimId" });
    expect((await fixture.claim(request)).map((task) => task.id)).toEqual([id]);
  });

  test("answers only what is still its own when it is repeated", async (fixture) => {
    const ids = await fixture.addAll([{}, {}, {}]);
    const claimId = newLeaseId(systemRandom);
    const [done, returned, kept] = await fixture.claim({ claimId });
    if (!done || !returned || !kept) throw new Error("three tasks");
    await fixture.complete(done);
    await fixture.requeue(returned);
    expect((await fixture.claim({ claimId })).map(({ id }) => id)).toEqual([ids[2]]);
    await fixture.complete(kept);
    // A repeated claim returns no new tasks; another claim does.
    expect(await fixture.claim({ claimId })).toEqual([]);
    expect((await fixture.claim()).map(({ id }) => id)).toEqual([ids[1]]);
  });

  test("takes tasks once when copies of a claim arrive together", async (fixture) => {
    await fixture.addAll(Array.from({ length: 50 }, () => ({})));
    const claimId = newLeaseId(systemRandom);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => fixture.claim({ claimId, limit: 5, holder: "worker" })),
    );
    const [first] = answers;
    expect(first).toHaveLength(5);
    for (const tasks of answers) {
      expect(tasks.map(({ id, token }) => ({ id, token }))).toEqual(
        first?.map(({ id, token }) => ({ id, token })),
      );
    }
    expect((await fixture.store.counts(fixture.namespace)).running).toBe(5);
  });

  test("answers the same after a reap, which forgets no claim that may come again", async (fixture) => {
    const [first = "", second = ""] = await fixture.addAll([{}, {}]);
    const request = fixture.claimRequest({ limit: 1 });
    expect((await fixture.claim(request)).map(({ id }) => id)).toEqual([first]);
    await fixture.store.reap();
    expect((await fixture.claim(request)).map(({ id }) => id)).toEqual([first]);
    expect((await fixture.view({ id: second })).state).toBe("pending");
  });

  test("may find something later if it found nothing", async (fixture) => {
    const claimId = newLeaseId(systemRandom);
    expect(await fixture.claim({ claimId })).toEqual([]);
    const { id } = await fixture.add();
    expect((await fixture.claim({ claimId })).map((task) => task.id)).toEqual([id]);
  });

  test("renews by heartbeat: longer, never shorter", async (fixture) => {
    const held = await fixture.addAndHold({}, { ttlMs: 60_000 });
    const longer = await fixture.heartbeat(held, { ttlMs: 120_000 });
    expect(longer).toMatchObject({ status: "renewed", ttlMs: 120_000 });
    const { remainingMs: longMs, heartbeatAt, expiresAt } = await fixture.view(held);
    expect(longMs).toBeGreaterThan(60_000);
    expect(longMs).toBeLessThanOrEqual(120_000);
    expect(heartbeatAt === null).toBe(false);
    const shorter = await fixture.heartbeat(held, { ttlMs: 1_000 });
    expect(shorter.status === "renewed" && shorter.remainingMs > 60_000).toBe(true);
    const after = await fixture.view(held);
    expect(apartMs(after.expiresAt, expiresAt)).toBeLessThanOrEqual(CLOCKS_APART_MS);
    expect(after.token).toBe(held.token);
  });

  test("keeps a task alive as long as heartbeats come in time", async (fixture) => {
    await fixture.inTime(async (ttlMs) => {
      // A queue for each try: the task of an earlier one may be claimable again.
      const queue = `renewed within ${ttlMs}`;
      const held = await fixture.addAndHold({ queue }, { queues: [queue], ttlMs });
      for (let beat = 0; beat < 5; beat += 1) {
        await fixture.pass(ttlMs / 2);
        await fixture.store.reap();
        if ((await fixture.heartbeat(held, { ttlMs })).status !== "renewed") return false;
      }
      expect(await fixture.view(held)).toMatchObject({ state: "running", token: held.token });
      return true;
    });
  });
};

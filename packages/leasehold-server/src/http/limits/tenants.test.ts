/** What a tenant occupies beside its requests, and what ends with it. */
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { taskIds } from "../../../../leasehold/src/env/index.js";
import { memory } from "../../../../leasehold/src/stores/memory/index.js";
import { newTaskOf } from "../../../../leasehold/src/testing/task-suite/new-task.js";
import { Activities } from "../events/activity.js";
import { UNRESTRICTED } from "../events/event-stream.js";
import { Tenants } from "./tenants.js";

async function open(limits: { waiters: number; streams: number }) {
  const env = manualEnv();
  const { leases, tasks } = await memory().open(env);
  if (!tasks) throw new Error("memory keeps tasks");
  const closedQueues = new Set<string>();
  const failure: { error?: Error } = {};
  const tenants = new Tenants({
    env,
    leases,
    tasks,
    pauses: {
      async openQueues(_: string, queues: readonly string[]) {
        if (failure.error) throw failure.error;
        return queues.filter((queue) => !closedQueues.has(queue));
      },
    },
    activities: new Activities(env),
    limits: { ...limits, tenantScans: 1 },
  });
  onTestFinished(() => tenants.close());
  let claims = 0;
  /** Waits for a task as long as its caller does. */
  const claim = async ({ namespace = "n", signal = new AbortController().signal } = {}) => {
    claims += 1;
    const outcome = await tenants.of(namespace).claim(
      {
        namespace,
        claimId: `${claims}`.padStart(48, "0"),
        holder: "w",
        queues: ["mail"],
        kinds: null,
        limit: 1,
        ttlMs: 10_000,
        waitMs: 60_000,
      },
      { signal },
    );
    return outcome.status === "claimed" ? outcome.tasks.length : outcome.status;
  };
  /** A stream counts from its first read on. */
  const opened = (stream: ReadableStream) => {
    const reader = stream.getReader();
    void reader.read();
    return reader;
  };
  const events = (namespace = "n") =>
    opened(tenants.of(namespace).stream(["leases"], undefined, UNRESTRICTED));
  const followers = { topics: ["lease"], last: 0, lastEventId: undefined } as const;
  const activity = (namespace = "n") =>
    opened(tenants.of(namespace).activity({ ...followers, listener: UNRESTRICTED }));
  const newTaskId = taskIds(env.clock, env.random);
  const enqueue = () =>
    tasks.enqueue([newTaskOf({ namespace: "n", id: newTaskId() }, { queue: "mail" })]);
  const result = (namespace = "n") => {
    const signal = new AbortController().signal;
    return tenants.of(namespace).result(newTaskId(), { timeoutMs: 60_000, signal });
  };
  return { env, tenants, result, claim, events, activity, enqueue, closedQueues, failure };
}

const LIMIT = { code: "LIMIT_REACHED" };

it("lets as many claims and waits for results of a tenant be as its limit says", async () => {
  const { env, tenants, claim, result } = await open({ waiters: 3, streams: 1 });
  const claims = [claim(), claim()];
  expect(tenants.used).toEqual({ waits: 2 / 3, streams: 0, slots: 1 / 4 });
  const first = result();
  await expect(result()).rejects.toMatchObject(LIMIT);
  await expect(claim()).rejects.toMatchObject(LIMIT);
  expect(await Promise.all([result("other"), first])).toMatchObject([
    { state: "unknown" },
    { state: "unknown" },
  ]);
  expect(await result()).toMatchObject({ state: "unknown" });
  await env.clock.advance(60_000);
  await Promise.all(claims);
});

it("lets as many claims of a tenant wait as its limit says", async () => {
  const { env, claim } = await open({ waiters: 2, streams: 1 });
  const ended = new AbortController();
  const waiting = [claim({ signal: ended.signal }), claim()];
  await env.clock.settle();
  await expect(claim()).rejects.toMatchObject(LIMIT);
  // Another tenant has a limit of its own.
  void claim({ namespace: "other" });
  ended.abort();
  await env.clock.settle();
  expect(await waiting[0]).toBe(0);
  void claim();
  await env.clock.settle();
  await expect(claim()).rejects.toMatchObject(LIMIT);
});

it("lets a tenant open as many streams of events and activity together as its limit says", async () => {
  const { env, tenants, events, activity } = await open({ waiters: 1, streams: 2 });
  const streams = [events(), activity()];
  await env.clock.settle();
  expect(() => events()).toThrow(expect.objectContaining(LIMIT));
  expect(() => activity()).toThrow(expect.objectContaining(LIMIT));
  const other = events("other");
  expect(tenants.used).toMatchObject({ waits: 0, streams: 1 });
  for (const stream of [...streams, other]) void stream.cancel();
  await env.clock.settle();
  const more = [events(), activity()];
  await env.clock.settle();
  expect(() => events()).toThrow(expect.objectContaining(LIMIT));
  for (const stream of more) void stream.cancel();
  expect(tenants.of("n")).toBe(tenants.of("n"));
  expect(tenants.of("n")).not.toBe(tenants.of("other"));
});

it("lets workers claim while a viewer has all streams of the tenant", async () => {
  const { env, claim, enqueue, activity } = await open({ waiters: 1, streams: 1 });
  activity();
  await env.clock.settle();
  expect(() => activity()).toThrow(expect.objectContaining(LIMIT));
  const waiting = claim();
  await env.clock.settle();
  await enqueue();
  await env.clock.advance(1_000);
  expect(await waiting).toBe(1);
});

it("ends streams above the limit that were created before the others were read", async () => {
  const { env, tenants } = await open({ waiters: 1, streams: 2 });
  const tenant = tenants.of("n");
  const stream = () => tenant.stream(["leases"], undefined, UNRESTRICTED);
  const listener = UNRESTRICTED;
  const activity = tenant.activity({
    topics: ["lease"],
    last: 0,
    lastEventId: undefined,
    listener,
  });
  const created = [stream(), activity, stream(), stream()];
  const begun: boolean[] = [];
  for (const stream of created) begun.push(!(await stream.getReader().read()).done);
  expect(begun).toEqual([true, true, false, false]);
  await env.clock.settle();
});

it("gives a waiting claim the task that comes, but none of a closed queue", async () => {
  const { env, claim, enqueue, closedQueues } = await open({ waiters: 10, streams: 10 });
  const waiting = claim();
  await env.clock.advance(1_000);
  await enqueue();
  await env.clock.advance(1_000);
  expect(await waiting).toBe(1);
  closedQueues.add("mail");
  await enqueue();
  const ended = new AbortController();
  const closed = claim({ signal: ended.signal });
  await env.clock.advance(5_000);
  ended.abort();
  await env.clock.advance(1_000);
  expect(await closed).toBe(0);
});

it("counts no claim that has failed", async () => {
  const { claim, failure } = await open({ waiters: 2, streams: 2 });
  failure.error = new Error("the pauses cannot be read");
  for (let round = 0; round < 5; round += 1) await expect(claim()).rejects.toBe(failure.error);
});

it("ends what waits when the server closes", async () => {
  const { env, tenants, claim, events } = await open({ waiters: 10, streams: 10 });
  const waiting = claim();
  const stream = events();
  await env.clock.settle();
  await tenants.close();
  await env.clock.settle();
  expect(await waiting).toBe(0);
  for (let part = await stream.read(); !part.done; ) part = await stream.read();
  const late = claim();
  await env.clock.settle();
  expect(await late).toBe(0);
});

import { connect, StoreUnavailableError } from "leasehold";
import { silentLogger } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { GENERATOR_RESOURCE } from "./shared.js";
import { startGenerator } from "./singleton.js";
import { GeneratorState } from "./state.js";

it("generates at the wanted rate on one node only, can be stopped from any, and is taken over", async () => {
  const env = manualEnv();
  const { clock } = env;
  const { leases, tasks, backing } = await memory().open(env);
  const state = new GeneratorState(backing);
  const node = async (holder: string) => {
    const leasehold = await connect(leases, { env, holder });
    return { leasehold, generator: startGenerator({ leasehold, tasks, state, env }) };
  };
  const [a, b] = [await node("a"), await node("b")];
  const pending = async () => (await tasks.counts("default")).pending;

  await clock.advance(2_000);
  expect(await pending()).toBe(0);

  await state.write("default", { running: true, ratePerSecond: 20 });
  await clock.advance(10_000);
  const made = await pending();
  expect(made).toBeGreaterThan(180);
  expect(made).toBeLessThanOrEqual(200);
  expect((await b.leasehold.get(GENERATOR_RESOURCE))?.holder).toBe("a");

  await a.generator.close();
  await clock.advance(5_000);
  expect((await b.leasehold.get(GENERATOR_RESOURCE))?.holder).toBe("b");
  expect((await pending()) - made).toBeGreaterThan(80);

  await state.write("default", { running: false });
  await clock.advance(1_000);
  const stopped = await pending();
  await clock.advance(10_000);
  expect(await pending()).toBe(stopped);
  const [task] = (await tasks.list({ namespace: "default", limit: 1 })).items;
  expect(task).toMatchObject({
    kind: "sleep",
    data: { sleep_duration_seconds: expect.any(Number) },
  });
  await b.generator.close();
});

it("generates at a rate below one a second for as long, through outages and stops", async () => {
  const env = manualEnv();
  const { leases, tasks, backing } = await memory().open(env);
  const state = new GeneratorState(backing);
  const leasehold = await connect(leases, { env, holder: "a" });
  const generator = startGenerator({ leasehold, tasks, state, env });
  const made = async () => (await tasks.counts("default")).pending;
  await env.clock.advance(1_000);
  for (let round = 0; round < 3; round += 1) {
    await state.write("default", { running: true, ratePerSecond: 0.3 });
    const before = await made();
    await env.clock.advance(1_000_000);
    const during = (await made()) - before;
    expect(during).toBeGreaterThanOrEqual(298);
    expect(during).toBeLessThanOrEqual(300);
    const read = state.read.bind(state);
    state.read = () => Promise.reject(new StoreUnavailableError("it is down", { outcome: "none" }));
    await env.clock.advance(60_000);
    state.read = read;
    await state.write("default", { running: false });
    const stopped = await made();
    await env.clock.advance(60_000);
    // Nothing is owed for the time of an outage.
    expect((await made()) - stopped).toBeLessThanOrEqual(1);
  }
  await generator.close();
});

it("adds at most a second's worth at once, after an outage and after a suspension", async () => {
  const env = manualEnv();
  const { leases, tasks, backing } = await memory().open(env);
  const state = new GeneratorState(backing);
  const leasehold = await connect(leases, { env, holder: "a" });
  const batches: number[] = [];
  const enqueue = tasks.enqueue.bind(tasks);
  tasks.enqueue = (added, ...more) => {
    batches.push(added.length);
    return enqueue(added, ...more);
  };
  await state.write("default", { running: true, ratePerSecond: 100 });
  const generator = startGenerator({ leasehold, tasks, state, env });
  await env.clock.advance(2_000);
  const read = state.read.bind(state);
  let answer = () => {};
  state.read = async (namespace) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return read(namespace);
  };
  await env.clock.advance(600_000);
  state.read = read;
  answer();
  await env.clock.advance(2_000);
  expect(batches.length).toBeGreaterThan(10);
  expect(Math.max(...batches)).toBeGreaterThan(20);
  expect(Math.max(...batches)).toBeLessThanOrEqual(101);
  await generator.close();
});

it("says so when the store does not take its tasks", async () => {
  const errors: unknown[] = [];
  const warn = (fields: object) => void errors.push(fields);
  const env = manualEnv({ logger: { ...silentLogger, warn } });
  const { leases, tasks, backing } = await memory().open(env);
  const state = new GeneratorState(backing);
  const error = new StoreUnavailableError("it is down", { outcome: "none" });
  tasks.enqueue = async (added) =>
    added.map(() => ({ status: "failed", applied: "no", retryable: true, error }));
  await state.write("default", { running: true, ratePerSecond: 10 });
  const leasehold = await connect(leases, { env, holder: "a" });
  const generator = startGenerator({ leasehold, tasks, state, env });
  await env.clock.advance(1_000);
  expect(errors).toContainEqual({ err: error, tasks: expect.any(Number) });
  await generator.close();
});

it("logs the wanted state when it begins to lead, and each change", async () => {
  const logged: unknown[] = [];
  const info = (fields: object, message?: string) => void logged.push({ ...fields, message });
  const env = manualEnv({ logger: { ...silentLogger, info } });
  const { leases, tasks, backing } = await memory().open(env);
  const state = new GeneratorState(backing);
  const leasehold = await connect(leases, { env, holder: "a" });
  const generator = startGenerator({ leasehold, tasks, state, env });
  const next = async () => {
    await env.clock.advance(1_000);
    return logged.splice(0);
  };
  const token = expect.any(Number);
  expect(await next()).toContainEqual({ token, message: "leading, but generation is stopped" });
  await state.write("default", { running: true, ratePerSecond: 2 });
  expect(await next()).toEqual([{ token, ratePerSecond: 2, message: "generating" }]);
  await state.write("default", { ratePerSecond: 3 });
  expect(await next()).toEqual([]);
  await state.write("default", { running: false });
  expect(await next()).toEqual([{ token, message: "leading, but generation is stopped" }]);
  await generator.close();
});

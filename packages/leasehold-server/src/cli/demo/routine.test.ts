import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it, vi } from "vitest";
import { createApp } from "../../http/index.js";
import { startRoutine } from "./routine.js";

it("has a task of its schedule and a report within half a minute, and a report a minute", async () => {
  const env = manualEnv({});
  const stores = await memory().open(env);
  const app = createApp({ ...stores, env, version: "test", auth: "none" });
  const items = async (path: string) => {
    const response = await app.fetch(new Request(`http://localhost/v1/${path}`));
    return ((await response.json()) as { items: Record<string, unknown>[] }).items;
  };
  const routine = await startRoutine(stores, env);
  // What loads a module takes real time, in which this clock stands still.
  const untilKeys = (count: number, advanceMs: number) =>
    vi.waitFor(
      async () => {
        await env.clock.advance(advanceMs);
        expect((await items("once")).length).toBeGreaterThanOrEqual(count);
      },
      { timeout: 60_000 },
    );

  await env.clock.advance(30_000);
  await untilKeys(1, 0);
  expect(await items("schedules")).toMatchObject([{ name: "nap", lastTask: { state: "pending" } }]);
  await untilKeys(2, 10_000);
  const keys = await items("once");
  for (const { key, state, value } of keys) {
    expect(key).toMatch(/^report:\d{4}-\d\d-\d\dT\d\d:\d\d$/);
    expect([state, value]).toEqual(["done", expect.objectContaining({ done: 0 })]);
  }

  await routine.stop();
  await app.close();
  await stores.close();
});

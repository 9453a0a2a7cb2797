import { AsyncLocalStorage } from "node:async_hooks";
import { expect, it, vi } from "vitest";
import { systemEnv } from "../env/index.js";
import { connect } from "../index.js";
import { manualEnv } from "../testing/index.js";

const nestedRun = { code: "NESTED_RUN", resource: "r" };

function open(options: { scoped?: boolean; warn?: () => void } = {}) {
  const { scoped = true, warn = () => {} } = options;
  const logger = { debug() {}, info() {}, warn, error() {} };
  const env = { ...manualEnv({ logger }), scope: scoped ? systemEnv.scope : undefined };
  return connect("memory:", { env }).then((leasehold) => ({ leasehold, clock: env.clock }));
}

it("refuses to wait for the lease that the calling code runs under", async () => {
  const { leasehold } = await open();
  await leasehold.run("r", async () => {
    await expect(leasehold.run("r", () => 1)).rejects.toMatchObject(nestedRun);
    await expect(leasehold.acquire("r")).rejects.toMatchObject(nestedRun);
    await expect(leasehold.acquireAll(["a", "r"])).rejects.toMatchObject(nestedRun);
    // A try does not wait, and another resource is another matter; it may be nested in turn.
    expect(await leasehold.tryAcquire("r")).toBe(null);
    await leasehold.run("other", async () => {
      await expect(leasehold.run("r", () => 1)).rejects.toMatchObject(nestedRun);
    });
  });
  await leasehold.tryRun("r", async () => {
    await expect(leasehold.run("r", () => 1)).rejects.toMatchObject(nestedRun);
  });
  const after = vi.fn();
  expect(await leasehold.run("r", after)).toBe(undefined);
  expect(after).toHaveBeenCalledTimes(1);
  await leasehold.close();
});

it("distinguishes nested runs by client, also when a client in between has closed", async () => {
  const { leasehold: outer } = await open();
  const { leasehold: inner } = await open();
  await outer.run("r", () =>
    inner.run("r", async () => {
      await expect(outer.run("r", () => 1)).rejects.toMatchObject(nestedRun);
      void inner.close();
      await expect(inner.run("other", () => 1)).rejects.toMatchObject({ code: "CLOSED" });
      await expect(outer.run("r", () => 1)).rejects.toMatchObject(nestedRun);
      expect(await outer.run("other", () => "not nested")).toBe("not nested");
    }),
  );
  await inner.close();
  await outer.close();
});

it("uses one AsyncLocalStorage for all clients, because each slows every promise", async () => {
  const run = vi.spyOn(AsyncLocalStorage.prototype, "run");
  for (const result of [1, 2, 3]) {
    const { leasehold } = await open();
    expect(await leasehold.run("r", () => result)).toBe(result);
    await leasehold.close();
  }
  const used = new Set(run.mock.contexts);
  run.mockRestore();
  expect(used.size).toBe(1);
});

it("lets a run wait for a lease that other code of its client holds", async () => {
  const { leasehold, clock } = await open();
  const held = await leasehold.acquire("r");
  const running = leasehold.run("other", () => leasehold.run("r", () => "after it"));
  await clock.settle();
  await held.release();
  expect(await running).toBe("after it");
  await leasehold.close();
});

it("lets concurrent runs wait for each other, and what an ended run has left behind", async () => {
  const { leasehold } = await open();
  const order: string[] = [];
  let later = Promise.resolve("");
  const first = leasehold.run("r", async () => {
    order.push("first");
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    later = ended.then(() => leasehold.run("r", () => "left behind"));
    queueMicrotask(() => void first.then(end));
    await Promise.resolve();
  });
  const second = leasehold.run("r", () => order.push("second"));
  await Promise.all([first, second]);
  expect(order).toEqual(["first", "second"]);
  expect(await later).toBe("left behind");
  await leasehold.close();
});

it("warns where nested and concurrent calls cannot be distinguished", async () => {
  const warn = vi.fn();
  const { leasehold, clock } = await open({ scoped: false, warn });
  const leave = new AbortController();
  const run = leasehold.run("r", () =>
    leasehold.run("r", { signal: leave.signal }, () => 1).catch(() => "left"),
  );
  await clock.advance(10_000);
  expect(warn).toHaveBeenCalledWith(
    expect.objectContaining({ resource: "r", holder: leasehold.holder }),
    expect.stringContaining("a run within a run waits for ever"),
  );
  leave.abort();
  expect(await run).toBe("left");
  await leasehold.close();
});

it("logs a long wait once, with the current holder; a candidate's is no news", async () => {
  const warn = vi.fn();
  const logger = { debug() {}, info() {}, warn, error() {} };
  const env = manualEnv({ logger });
  const name = "memory:long-wait";
  const holding = await connect(name, { env, holder: "the holder" });
  const waiting = await connect(name, { env });
  const lease = await holding.acquire("r", { ttlMs: 60_000 });
  const acquired = waiting.acquire("r");
  const singleton = waiting.singleton("r", async () => {}).start();
  await env.clock.advance(9_000);
  expect(warn).not.toHaveBeenCalled();
  await env.clock.advance(60_000);
  const fields = { resource: "r", holder: "the holder", waitedMs: 10_000 };
  expect(warn.mock.calls).toEqual([[expect.objectContaining(fields), "waiting for a lease"]]);
  await lease.release();
  await (await acquired).release();
  await singleton.close();
  await waiting.close();
  await holding.close();
});

it("reports for how long work that does not stop keeps its resource when the client has closed", async () => {
  const error = vi.fn();
  const env = manualEnv({ logger: { debug() {}, info() {}, warn() {}, error } });
  const leasehold = await connect("memory:", { env, graceMs: 1_000 });
  let end = () => {};
  const run = leasehold.run("r", () => new Promise<void>((resolve) => (end = resolve)));
  run.catch(() => {});
  await env.clock.advance(0);
  const closing = leasehold.close();
  await env.clock.advance(1_000);
  await closing;
  // The TTL of 30 s, less the grace and what the holder's clock may be slow by.
  const heldForMs = expect.closeTo(29_000, -3);
  const fields = { resources: ["r"], graceMs: 1_000, heldForMs };
  expect(error.mock.calls).toEqual([[fields, "the work does not stop"]]);
  end();
  await run;
});

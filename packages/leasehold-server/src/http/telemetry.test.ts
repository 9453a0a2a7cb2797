/** What a server samples of its stores for its metrics. */
import { Hono } from "hono";
import { openStores } from "leasehold";
import type { TaskStore } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { directLeases } from "../../../../tests/support/worlds/direct-leases.js";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import type { Caller } from "./auth/caller.js";
import type { AppEnv } from "./request.js";
import { measuredRequests, observeStores, RequestMeter } from "./telemetry.js";

const SAMPLE_EVERY_MS = 15_000;

async function open() {
  const env = manualEnv();
  const { clock } = env;
  const { leases } = await openStores("memory:", { env });
  const recorded = recordedTelemetry();
  const state = {
    running: true,
    ratePerSecond: 3,
    fails: false,
    waits: Promise.resolve(),
    reads: 0,
  };
  const counts = new Map<string, number>();
  const tenants = new Set(["a", "b"]);
  const tasks = {
    async counts(tenant: string) {
      const pending = counts.get(tenant) ?? 0;
      return { pending, running: 1, completed: 0, failed: 0, dead: 0, cancelled: 0 };
    },
  } as unknown as TaskStore;
  const generator = {
    async read(tenant: string) {
      state.reads += 1;
      const { running, ratePerSecond } = state;
      await state.waits;
      if (state.fails || tenant !== "a") throw new Error("unavailable");
      return { running, ratePerSecond };
    },
  } as unknown as Parameters<typeof observeStores>[1]["generator"];
  const sampled = { leases, tasks, generator, clock, tenants, namespace: "a" };
  const end = observeStores(recorded.telemetry, sampled);
  onTestFinished(end);
  const valueOf = async (name: string, state?: string) => {
    const found = (await recorded.collect(name)) as { value: number; labels: { state?: string } }[];
    return found.find(({ labels }) => labels.state === state)?.value;
  };
  return {
    env,
    clock,
    state,
    counts,
    tenants,
    acquireIn: (tenant: string) => directLeases(leases, env, tenant),
    ageS: () => valueOf("leasehold.lease.held.age.max"),
    rate: () => valueOf("leasehold.generator.rate"),
    depth: (of: string) => valueOf("leasehold.task.depth", of),
    collect: recorded.collect,
    end,
  };
}

test("the oldest grant is found behind the first page, of every tenant", async () => {
  const { clock, acquireIn, ageS } = await open();
  const acquire = { a: acquireIn("a"), b: acquireIn("b") };
  const lease = await acquire.b("z");
  await clock.advance(50_000);
  for (let n = 0; n < 401; n += 1) await acquire.b(`early-${String(n).padStart(3, "0")}`);
  await acquire.a("newest");
  await clock.advance(10_000);
  expect(await ageS()).toBe(60);
  await lease.release();
  await clock.advance(SAMPLE_EVERY_MS);
  expect(await ageS()).toBe(25);
});

test("the tasks of all tenants are one sum, for tenants that came later too", async () => {
  const { clock, counts, tenants, depth } = await open();
  counts.set("a", 2).set("b", 3);
  expect([await depth("pending"), await depth("running")]).toEqual([5, 2]);
  tenants.add("c");
  counts.set("c", 10).set("a", 0);
  // Scrapers share a sample until it is 15 s old.
  await clock.advance(SAMPLE_EVERY_MS - 1);
  expect(await depth("pending")).toBe(5);
  await clock.advance(1);
  expect([await depth("pending"), await depth("running")]).toEqual([13, 3]);
});

test("the rate of a generator that does not run is 0", async () => {
  const { clock, state, rate } = await open();
  expect(await rate()).toBe(3);
  state.running = false;
  await clock.advance(SAMPLE_EVERY_MS);
  expect(await rate()).toBe(0);
});

test("a first read that fails is repeated by the next scrape", async () => {
  const { state, rate } = await open();
  state.fails = true;
  for (const reads of [1, 2, 3]) {
    expect(await rate()).toBeUndefined();
    expect(state.reads).toBe(reads);
  }
  state.fails = false;
  expect(await rate()).toBe(3);
});

test("a sample stays for a minute of failures, and each scrape of an outage reads again", async () => {
  const { clock, state, rate } = await open();
  for (const ratePerSecond of [3, 5]) {
    Object.assign(state, { fails: false, ratePerSecond });
    await clock.advance(SAMPLE_EVERY_MS);
    expect(await rate()).toBe(ratePerSecond);
    Object.assign(state, { fails: true, reads: 0 });
    for (const passedMs of [SAMPLE_EVERY_MS, 45_000]) {
      await clock.advance(passedMs);
      expect(await rate()).toBe(ratePerSecond);
    }
    await clock.advance(1);
    expect(await rate()).toBeUndefined();
    expect(state.reads).toBe(3);
  }
});

test("a scrape does not wait for a store that hangs, and its answer serves the next scrape", async () => {
  const { clock, state, rate, collect, end } = await open();
  let answer = () => {};
  state.waits = new Promise<void>((resolve) => (answer = resolve));
  for (let scrapes = 0; scrapes < 3; scrapes += 1) {
    const scraped = collect("leasehold.generator.rate");
    await clock.advance(100);
    expect(await scraped).toEqual([]);
  }
  expect(state.reads).toBe(1);
  answer();
  await clock.settle();
  expect(await rate()).toBe(3);
  expect(state.reads).toBe(1);
  end();
  expect(clock.pendingTimers).toBe(0);
  expect(await collect("leasehold.generator.rate")).toBeUndefined();
});

test("each request is measured once, by its route and what it answered", async () => {
  const env = manualEnv();
  const { telemetry, valuesOf, spans } = recordedTelemetry();
  const tenants = new Set<string>();
  const app = new Hono<AppEnv>();
  app.use(measuredRequests(new RequestMeter({ ...env, telemetry }, tenants)));
  app.get("/things/:id", async (context) => {
    context.set("caller", { namespace: context.req.param("id") } as Caller);
    await env.clock.advance(30);
    return context.body(null, context.req.param("id") === "failing" ? 500 : 200);
  });
  for (const path of ["/things/a", "/things/b", "/things/failing", "/other/a"]) {
    await app.request(path);
  }
  await app.request("/things/a", { method: "BREW" });
  const responses = valuesOf("leasehold.server.responses").map(([labels]) => labels);
  expect(responses.map((labels) => Object.values(labels)[0])).toEqual([
    "2xx",
    "2xx",
    "5xx",
    "4xx",
    "4xx",
  ]);
  const durations = valuesOf("http.server.request.duration");
  const labels = { "http.request.method": "GET", "http.route": "/things/{id}" };
  expect(durations.slice(0, 3)).toEqual([
    [{ ...labels, "http.response.status_code": "200" }, 30],
    [{ ...labels, "http.response.status_code": "200" }, 30],
    [{ ...labels, "http.response.status_code": "500" }, 30],
  ]);
  expect(durations.slice(3).map(([of]) => of)).toMatchObject([
    { "http.route": "none", "http.request.method": "GET" },
    { "http.route": "none", "http.request.method": "_OTHER" },
  ]);
  expect(spans.map(({ outcome }) => outcome)).toEqual(["ok", "ok", "failed", "ok", "ok"]);
  expect([...tenants]).toEqual(["a", "b", "failing"]);
});

/** The figures and traces of a client's leases. */
import { expect, it, onTestFinished } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";

const TTL_MS = 10_000;

async function open() {
  const env = manualEnv();
  const recorded = recordedTelemetry();
  const store = faultyStore(env);
  const client = (telemetry = recorded.telemetry) => {
    const own = { ...env, telemetry };
    const leases = new LeaseClient(
      store,
      { env: own, holder: "a", defaults: { ttlMs: TTL_MS } },
      { close: undefined },
    );
    onTestFinished(() => leases.close());
    return leases;
  };
  await env.clock.advance(1_000);
  return { clock: env.clock, store, client, ...recorded };
}

const [HELD, AGE, LOSSES] = [
  "leasehold.lease.held",
  "leasehold.lease.held.age.max",
  "leasehold.lease.losses",
];
const [ACQUIRE, HOLD] = ["leasehold.lease.acquire.duration", "leasehold.lease.hold.duration"];

it("times an acquire by its outcome, and traces it", async () => {
  const { clock, client, store, valuesOf, spans } = await open();
  const [one, other] = [client(), client()];
  store.faults.acquire = "hold";
  const acquiring = one.acquire("r");
  await clock.advance(700);
  store.open();
  store.faults.acquire = "ok";
  const lease = await acquiring;
  expect(await other.tryAcquire("r")).toBeNull();
  const refused = other.acquire("r", { waitMs: 500 }).catch(() => "refused");
  await clock.advance(500);
  expect(await refused).toBe("refused");
  store.faults.acquire = "refuse";
  const failing = other.tryAcquire("r").catch(() => "failed");
  await clock.advance(60_000);
  expect(await failing).toBe("failed");
  expect(valuesOf(ACQUIRE)).toEqual([
    [{ outcome: "acquired" }, 700],
    [{ outcome: "held" }, 0],
    [{ outcome: "held" }, 500],
    [{ outcome: "failed" }, expect.any(Number)],
  ]);
  const acquires = spans.filter(({ name }) => name === "leasehold acquire");
  expect(acquires.map(({ attributes }) => attributes["leasehold.outcome"])).toEqual([
    "acquired",
    "held",
    "held",
    "failed",
  ]);
  expect(acquires.map(({ outcome }) => outcome)).toEqual(["ok", "ok", "failed", "failed"]);
  await lease.release();
});

it("times each attempt of a reusable lease by its outcome", async () => {
  const { clock, client, store, valuesOf } = await open();
  const lease = await client().acquire("r");
  const reusable = client().reusableLease("r", { acquireRetries: 1, acquireRetryDelayMs: 100 });
  const refused = reusable.acquire();
  await clock.advance(200);
  expect(await refused).toBe(false);
  await lease.release();
  store.faults.acquire = "hold";
  const acquiring = reusable.acquire();
  await clock.advance(300);
  store.open();
  expect(await acquiring).toBe(true);
  await reusable.release();
  expect(valuesOf(ACQUIRE)).toEqual([
    [{ outcome: "acquired" }, 0],
    [{ outcome: "held" }, 0],
    [{ outcome: "held" }, 0],
    [{ outcome: "acquired" }, 300],
  ]);
});

it("counts what is held, and for how long, until the release", async () => {
  const { clock, client, valuesOf, collect } = await open();
  const leases = client();
  const first = await leases.acquire("first");
  expect(await collect(AGE)).toEqual([{ value: 0, labels: {} }]);
  await clock.advance(2_000);
  const second = await leases.acquire("second");
  await clock.advance(1_000);
  expect(await collect(AGE)).toEqual([{ value: 3, labels: {} }]);
  expect(valuesOf(HELD)).toEqual([
    [{}, 1],
    [{}, 1],
  ]);
  await first.release();
  await first.release();
  expect(await collect(AGE)).toEqual([{ value: 1, labels: {} }]);
  await second.release();
  expect(await collect(AGE)).toEqual([]);
  expect(valuesOf(HELD).slice(2)).toEqual([
    [{}, -1],
    [{}, -1],
  ]);
  expect(valuesOf(HOLD)).toEqual([
    [{ ended: "released" }, 3_000],
    [{ ended: "released" }, 1_000],
  ]);
  expect(valuesOf(LOSSES)).toEqual([]);
});

it("counts a loss by its reason, once", async () => {
  const { clock, client, store, valuesOf, collect } = await open();
  const leases = client();
  const lease = await leases.acquire("r");
  store.faults.renew = "refuse";
  await clock.advance(TTL_MS);
  expect(lease.lostError).toMatchObject({ reason: "expired" });
  await lease.release().catch(() => {});
  expect(valuesOf(LOSSES)).toEqual([[{ reason: "expired" }, 1]]);
  const [ended] = valuesOf(HOLD);
  expect(ended?.[0]).toEqual({ ended: "lost" });
  expect(ended?.[1]).toBeLessThanOrEqual(TTL_MS);
  expect(valuesOf(HELD).map(([, by]) => by)).toEqual([1, -1]);
  expect(await collect(AGE)).toEqual([]);
});

it("keeps the figures of two exporters apart", async () => {
  const { clock, client, collect } = await open();
  const other = recordedTelemetry();
  const first = await client().acquire("first");
  await clock.advance(5_000);
  const second = await client(other.telemetry).acquire("second");
  await clock.advance(1_000);
  expect(await collect(AGE)).toEqual([{ value: 6, labels: {} }]);
  expect(await other.collect(AGE)).toEqual([{ value: 1, labels: {} }]);
  await Promise.all([first.release(), second.release()]);
});

it("is read once per collection, however many leases and clients there are", async () => {
  const { client, telemetry } = await open();
  const observed: string[] = [];
  const own: typeof telemetry = {
    ...telemetry,
    observe(name, read) {
      observed.push(name);
      return telemetry.observe(name, read);
    },
  };
  const [one, other] = [client(own), client(own)];
  const leases = [await one.acquire("a"), await one.acquire("b"), await other.acquire("c")];
  expect(observed).toEqual([AGE]);
  await Promise.all(leases.map((lease) => lease.release()));
});

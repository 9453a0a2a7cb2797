/** What a waiting caller learns, and what an operator sees of the wait. */
import { expect, it, onTestFinished } from "vitest";
import { faultyStore } from "../../../../tests/support/faulty-store.js";
import { recordedTelemetry } from "../../../../tests/support/recorded-telemetry.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";

function open() {
  const logged: (readonly [message: string, fields: object])[] = [];
  const log = (fields: object, message: string) => void logged.push([message, fields]);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const { telemetry, valuesOf } = recordedTelemetry();
  const store = faultyStore(env);
  const client = (holder: string) => {
    const defaults = { ttlMs: 30_000 };
    const own = { ...env, telemetry };
    const leases = new LeaseClient(store, { env: own, holder, defaults }, { close: undefined });
    // Nothing moves the clock any more.
    onTestFinished(() => void leases.close());
    return leases;
  };
  return { clock: env.clock, store, logged, valuesOf, a: client("a"), b: client("b") };
}
const unavailable = (holder: string) =>
  expect.objectContaining({ code: "LEASE_UNAVAILABLE", resource: "r", holder });

it("names the holder that was waited for in vain, also another caller of this client", async () => {
  const { clock, store, a, b } = open();
  const lease = await a.acquire("r");
  const byOther = b.acquire("r", { waitMs: 2_000 });
  const byOwn = a.acquire("r", { waitMs: 2_000 });
  const refused = [
    expect(byOther).rejects.toEqual(unavailable("a")),
    expect(byOwn).rejects.toEqual(unavailable("a")),
  ];
  await clock.advance(2_000);
  await Promise.all(refused);
  await lease.release();
  // The first caller of b gets no answer of the store; the second one waits behind it.
  store.faults.acquire = "hang";
  const first = b.acquire("r", { waitMs: 2_000 }).catch((error: unknown) => error);
  const second = b.acquire("r", { waitMs: 1_000 });
  const behind = expect(second).rejects.toEqual(unavailable("another caller of this client"));
  await clock.advance(1_000);
  await behind;
  await clock.advance(60_000);
  expect(await first).toMatchObject({ code: "STORE_UNAVAILABLE" });
  store.faults.acquire = "ok";
  await clock.advance(60_000);
});

it("logs a wait of ten seconds once, with the holder and what is left to it", async () => {
  const { clock, logged, a, b } = open();
  const lease = await a.acquire("r", { autoRenew: false, ttlMs: 60_000 });
  const waiting = b.acquire("r");
  await clock.advance(9_999);
  expect(logged).toEqual([]);
  await clock.advance(1);
  const fields = { resource: "r", holder: "a", waitedMs: 10_000 };
  expect(logged).toEqual([["waiting for a lease", { ...fields, remainingMs: expect.any(Number) }]]);
  await clock.advance(10_000);
  expect(logged).toHaveLength(1);
  await lease.release();
  await clock.advance(1_000);
  await (await waiting).release();
});

it("logs a long wait for a lease of the same client alike", async () => {
  const { clock, logged, a } = open();
  const lease = await a.acquire("r");
  const waiting = a.acquire("r");
  await clock.advance(10_000);
  expect(logged).toEqual([
    [
      "waiting for a lease",
      { resource: "r", holder: "a", remainingMs: expect.any(Number), waitedMs: 10_000 },
    ],
  ]);
  await lease.release();
  await clock.advance(1_000);
  await (await waiting).release();
});

it("logs no long wait of a standby, nor one that has ended", async () => {
  const { clock, logged, a, b } = open();
  const lease = await a.acquire("r");
  let worked = false;
  const standingBy = b.standBy("r", {}, async () => void (worked = true));
  const ended = a.acquire("r", { waitMs: 5_000 }).catch(() => "in vain");
  await clock.advance(20_000);
  expect(await ended).toBe("in vain");
  expect(logged).toEqual([]);
  await lease.release();
  await clock.advance(1_000);
  await standingBy;
  expect(worked).toBe(true);
});

it("counts waiters while they wait", async () => {
  const { clock, valuesOf, a, b } = open();
  const lease = await a.acquire("r");
  const waiting = b.acquire("r", { waitMs: 1_000 }).catch(() => "in vain");
  await clock.advance(500);
  const waiters = () => valuesOf("leasehold.lease.waiters").map(([, by]) => by);
  expect(waiters()).toEqual([1, -1, 1]);
  await clock.advance(500);
  expect(await waiting).toBe("in vain");
  expect(waiters()).toEqual([1, -1, 1, -1]);
  await lease.release();
});

it("stores the metadata of the grant", async () => {
  const { a } = open();
  const lease = await a.acquire("r", { metadata: { host: "h" } });
  expect((await a.get("r"))?.metadata).toBe('{"host":"h"}');
  await lease.release();
});

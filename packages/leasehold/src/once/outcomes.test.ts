/** What a call of `once` counts as, what it records of an error, and what its work is given. */
import { expect, it } from "vitest";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import { connect, openStores } from "../index.js";
import { manualEnv } from "../testing/index.js";
import type { OnceLease } from "./lease.js";
import { KEY_BYTES, type OnceStore } from "./port.js";

let names = 0;
async function world() {
  const { telemetry, valuesOf } = recordedTelemetry();
  const env = { ...manualEnv(), telemetry };
  const name = `memory:once-outcomes-${names++}`;
  const stores = await openStores(name, { env });
  const client = await connect(name, { env, holder: "a" });
  const counted = () => valuesOf("leasehold.once.runs");
  const view = (key: string) => (stores.once as OnceStore).get({ namespace: "default", key });
  return { env, client, counted, view };
}

it("counts what ran, what another run has answered, and what failed", async () => {
  const { client, counted } = await world();
  await client.once("a", () => 1);
  await client.once("a", () => 2);
  await client.once("b", () => Promise.reject(new Error("no"))).catch(() => {});
  // It ran, and is recorded; only its value is not.
  await client.once("c", () => 1n).catch(() => {});
  expect(counted()).toEqual([
    [{ outcome: "ran" }, 1],
    [{ outcome: "answered" }, 1],
    [{ outcome: "failed" }, 1],
    [{ outcome: "ran" }, 1],
  ]);
});

it("counts work whose lease was lost apart from work that never began", async () => {
  const { client, counted } = await world();
  const taken = client.once("a", async () => {
    await client.revoke("once:a", { free: "now" });
    await expect(client.once("a", { waitMs: 0 }, () => 2)).resolves.toMatchObject({ value: 2 });
    return 1;
  });
  await expect(taken).rejects.toMatchObject({ code: "ONCE_DONE" });
  const lost = client.once("b", async () => {
    await client.revoke("once:b", { free: "now" });
    return 1;
  });
  await expect(lost).rejects.toMatchObject({ code: "LEASE_LOST" });
  let end = () => {};
  const working = new Promise<void>((resolve) => (end = resolve));
  const held = client.once("c", () => working);
  await expect(client.once("c", { waitMs: 0 }, () => 2)).rejects.toMatchObject({
    code: "LEASE_UNAVAILABLE",
  });
  end();
  await held;
  expect(counted().map(([labels]) => labels)).toEqual([
    { outcome: "ran" },
    { outcome: "lost" },
    { outcome: "lost" },
    { outcome: "refused" },
    { outcome: "ran" },
  ]);
});

it.each([
  ["set back, then suspended", [-3_600_000, 30_000]],
  ["suspended, then set back", [30_000, -3_600_000]],
  ["set forward twice", [15_000, 15_000]],
])("is lost for its work when the machine was %s", async (_, jumps) => {
  const { client, env } = await world();
  const alive: boolean[] = [];
  const running = client.once("a", { ttlMs: 30_000 }, async (lease) => {
    for (const ms of jumps) {
      alive.push(lease.checkAlive());
      env.clock.jumpWall(ms);
    }
    alive.push(lease.checkAlive());
    return 1;
  });
  await expect(running).rejects.toMatchObject({ code: "LEASE_LOST" });
  expect(alive.at(0)).toBe(true);
  expect(alive.at(-1)).toBe(false);
});

it("records what was thrown, also if it is no error", async () => {
  const { client, view } = await world();
  for (const [key, thrown, error] of [
    ["error", new TypeError("no ink"), "no ink"],
    ["text", "no paper", "no paper"],
  ] as const) {
    const failing = client.once(key, () => {
      throw thrown as Error;
    });
    await expect(failing).rejects.toBe(thrown);
    expect((await view(key))?.error).toContain(error);
  }
});

it("gives up at the failure that maxAttempts names, and names the error to those who ask later", async () => {
  const { client } = await world();
  const failures: number[] = [];
  const attempt = () =>
    client.once("a", { maxAttempts: 2 }, (lease) => {
      failures.push(lease.failures);
      throw new Error(`failed ${failures.length}`);
    });
  await expect(attempt()).rejects.toThrow("failed 1");
  await expect(attempt()).rejects.toThrow("failed 2");
  await expect(attempt()).rejects.toMatchObject({ code: "ONCE_FAILED" });
  await expect(attempt()).rejects.toThrow("failed 2");
  expect(failures).toEqual([0, 1]);
});

it("gives its work a lease as any other, with what `once` adds", async () => {
  const { client } = await world();
  let seen: OnceLease | undefined;
  await client.once("a", async (lease) => {
    seen = lease;
    expect([lease.resource, lease.holder, lease.failures]).toEqual(["once:a", "a", 0]);
    expect(["failures", "succeed", "token", "renew"].filter((name) => name in lease)).toHaveLength(
      4,
    );
    expect("none" in lease).toBe(false);
    expect(lease.checkAlive()).toBe(true);
    await lease.renew();
    expect(lease.signal.aborted).toBe(false);
  });
  expect(seen?.checkAlive()).toBe(false);
  expect(await client.get("once:a")).toMatchObject({ state: "released" });
});

it("takes the longest key and the least of each option", async () => {
  const { client, view } = await world();
  const key = "é".repeat(KEY_BYTES / 2);
  const options = { keepMs: 1, maxAttempts: 1, retryDelayMs: 0, waitMs: Number.POSITIVE_INFINITY };
  expect(await client.once(key, options, () => 1)).toEqual({ ran: true, value: 1 });
  expect((await view(key))?.keepUntil).not.toBe(null);
  await expect(client.once(`${key}x`, () => 1)).rejects.toMatchObject({ path: "key" });
});

it("runs again once the record's time is over", async () => {
  const { client, env } = await world();
  const runs: number[] = [];
  const run = () => client.once("a", { keepMs: 5_000 }, () => runs.push(1));
  await run();
  await env.clock.advance(4_999);
  expect(await run()).toMatchObject({ ran: false });
  await env.clock.advance(2);
  expect(await run()).toMatchObject({ ran: true });
  expect(runs).toHaveLength(2);
});

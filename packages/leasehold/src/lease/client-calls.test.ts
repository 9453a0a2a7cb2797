/** The client's calls beside acquiring: what they refuse, ask and return, and what closing does to them. */
import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { LEASE_TTL_MS, leasesWorld } from "../../../../tests/support/worlds/leases-world.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import { ClosedError, StoreUnavailableError } from "./errors.js";
import type { ClientOptions } from "./options.js";

/** A client whose work may overrun its close by nothing. */
function logging(options: ClientOptions = {}) {
  const logged: [level: string, message: string, fields: object][] = [];
  const log = (level: string) => (fields: object, message: string) =>
    void logged.push([level, message, fields]);
  const logger = { debug() {}, info() {}, warn: log("warn"), error: log("error") };
  const env = manualEnv();
  const { clock, random } = env;
  const store = faultyStore(env);
  const own = { logger, env: { clock, random }, graceMs: 0, ...options };
  const leases = new LeaseClient(store, own, { close: undefined });
  return { clock, store, leases, logged };
}

describe("a wrong argument is refused by name", () => {
  const { env, store, a } = leasesWorld();
  const open = (options: ClientOptions) => new LeaseClient(store, options, { close: undefined });
  it.each<[path: string, call: () => unknown]>([
    ["namespace", () => open({ env, namespace: "" })],
    ["holder", () => open({ env, holder: "" })],
    ["graceMs", () => open({ env, graceMs: -1 })],
    ["acquireRetries", () => a.reusableLease("r", { acquireRetries: -1 })],
    ["acquireRetryDelayMs", () => a.reusableLease("r", { acquireRetryDelayMs: -1 })],
    ["resource", () => a.get("")],
    ["resource", () => a.revoke("")],
    ["reason", () => a.revoke("r", { reason: 7 as never })],
    ["free", () => a.revoke("r", { free: "later" as never })],
    ["expectedToken", () => a.revoke("r", { expectedToken: 0 })],
    ["prefix", () => a.list({ prefix: 7 as never })],
    ["renewedOnly", () => a.list({ renewedOnly: 7 as never })],
    ["states.0", () => a.list({ states: ["gone" as never] })],
    ["namespace", () => a.list({ namespace: "other" } as never)],
    ["options", () => a.acquire("r", 7 as never)],
    ["options", () => a.watch(undefined as never)],
    ["signal", () => a.watch({} as never)],
  ])("%s", async (path, call) => {
    await expect((async () => await call())()).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path,
    });
  });
});

it("lists the leases of its namespace alone, by prefix and state", async () => {
  const { env, store, a } = leasesWorld();
  const other = new LeaseClient(store, { env, namespace: "other" }, { close: undefined });
  for (const name of ["x1", "x2", "y"]) await a.acquire(name);
  await other.acquire("x3");
  await (await a.acquire("x0")).release();
  const page = await a.list({ prefix: "x", states: ["live"], renewedOnly: false });
  expect(page.items.map(({ resource }) => resource)).toEqual(["x1", "x2"]);
  expect((await other.list()).items.map(({ resource }) => resource)).toEqual(["x3"]);
  expect(a.heldResources()).toEqual(["x1", "x2", "y"]);
});

it("notifies listeners of a resource until they leave", async () => {
  const { a, b, clock } = leasesWorld();
  const notified: string[] = [];
  const leave = a.listen("r", () => notified.push("r"));
  a.listen("s", () => notified.push("s"));
  await clock.settle();
  notified.length = 0;
  await (await b.acquire("r")).release();
  await clock.settle();
  expect(notified).toEqual(["r"]);
  leave();
  await (await b.acquire("r")).release();
  await clock.settle();
  expect(notified).toEqual(["r"]);
  const stop = new AbortController();
  for await (const event of a.watch({ signal: stop.signal })) {
    expect(event).toEqual({ type: "resync" });
    break;
  }
  stop.abort();
  const closing = a.close();
  await clock.advance(5_000);
  await closing;
});

it("watches the leases of its namespace alone", async () => {
  const { env, store, b } = leasesWorld();
  const options = { env, namespace: "tenant" };
  const a = new LeaseClient(store, options, { close: undefined });
  const stop = new AbortController();
  const events = a.watch({ signal: stop.signal })[Symbol.asyncIterator]();
  expect((await events.next()).value).toEqual({ type: "resync" });
  const changed = events.next();
  await (await b.acquire("of another")).release();
  await (await a.acquire("own")).release();
  expect((await changed).value).toMatchObject({ type: "changed", resource: "own" });
  stop.abort();
  await events.return?.();
});

it("says what its store promises", () => {
  const { store, a } = leasesWorld();
  expect(a.capabilities).toBe(store.capabilities);
});

describe("revoke", () => {
  it("frees at the expiry by default, and says when", async () => {
    const { a, b, clock } = leasesWorld();
    const lease = await a.acquire("r", { autoRenew: false });
    await clock.advance(1_000);
    const freeInMs = LEASE_TTL_MS - 1_000;
    expect(await b.revoke("r", { reason: "maintenance" })).toEqual({
      status: "revoked",
      token: lease.token,
      freeInMs,
    });
    expect(await b.get("r")).toMatchObject({ state: "revoked", remainingMs: 0, freeInMs });
    expect(await b.revoke("r", { expectedToken: 9 })).toEqual({ status: "otherToken" });
    expect(await b.revoke("none")).toEqual({ status: "notHeld" });
  });

  it("asks the store with all of its options, and the namespace of its client", async () => {
    const { env, store } = leasesWorld();
    const asked: unknown[] = [];
    const revoke: typeof store.revoke = (requests) => {
      asked.push(...requests);
      return store.revoke(requests);
    };
    const options = { env, namespace: "tenant" };
    const leases = new LeaseClient({ ...store, revoke }, options, { close: undefined });
    const given = { expectedToken: 9, free: "now", reason: "maintenance" } as const;
    await leases.revoke("r", given);
    await leases.revoke("r");
    expect(asked).toEqual([
      { namespace: "tenant", resource: "r", ...given },
      { namespace: "tenant", resource: "r", free: "atExpiry" },
    ]);
  });

  it.each([
    ["once, if it may have been applied", "maybe", 1],
    ["after it has asked again for 5 s, if it was not applied", "no", 10],
  ] as const)("rejects with the store's error %s", async (_, applied, tries) => {
    const { env, store, clock } = leasesWorld();
    const error = new StoreUnavailableError("down", { outcome: "none" });
    const failed = { status: "failed", applied, retryable: true, error } as const;
    let asked = 0;
    const revoke = async () => {
      asked += 1;
      return [failed];
    };
    const leases = new LeaseClient({ ...store, revoke }, { env }, { close: undefined });
    const revoked = expect(leases.revoke("r")).rejects.toBe(error);
    await clock.advance(6_000);
    await revoked;
    expect(asked).toBeGreaterThanOrEqual(tries);
    if (applied === "maybe") expect(asked).toBe(1);
  });

  it("and reads are tried again where the store fails for a moment", async () => {
    const { env, store, clock } = leasesWorld();
    const error = new StoreUnavailableError("down", { outcome: "none" });
    const failed = { status: "failed", applied: "no", retryable: true, error } as const;
    const failing = new Set(["get", "list", "revoke"]);
    const once = (name: "get" | "list" | "revoke", fail: () => Promise<never>) => {
      const call = store[name] as (...all: unknown[]) => Promise<unknown>;
      return (...all: unknown[]) => (failing.delete(name) ? fail() : call(...all));
    };
    const reject = () => Promise.reject(error);
    const over = {
      get: once("get", reject),
      list: once("list", reject),
      revoke: once("revoke", async () => [failed] as never),
    } as unknown as typeof store;
    const leases = new LeaseClient({ ...store, ...over }, { env }, { close: undefined });
    const answers = Promise.all([
      leases.read((all) => all.get("r")),
      leases.read((all) => all.list()),
      leases.revoke("r"),
    ]);
    await clock.advance(1_000);
    expect(await answers).toEqual([null, { items: [], nextCursor: null }, { status: "notHeld" }]);
  });
});

it('run with "unfenced" does not work beside a holder: it gives up as it would otherwise', async () => {
  const { a, b, clock } = leasesWorld();
  await a.acquire("r");
  const options = { onUnavailable: "unfenced", waitMs: 500 } as const;
  const running = b.run("r", options, () => "never").catch((error: unknown) => error);
  await clock.advance(500);
  expect(await running).toMatchObject({ code: "LEASE_UNAVAILABLE" });
});

describe("a closed client", () => {
  it("refuses every call, and was closed once", async () => {
    const { env, store } = leasesWorld();
    let closes = 0;
    const close = async () => void (closes += 1);
    const leases = new LeaseClient(store, { env }, { close });
    await leases[Symbol.asyncDispose]();
    expect(closes).toBe(1);
    await leases.close();
    expect(closes).toBe(1);
    const { signal } = new AbortController();
    for (const call of [
      () => leases.get("r"),
      () => leases.list(),
      () => leases.revoke("r"),
      () => leases.watch({ signal }),
      () => leases.listen("r", () => {}),
      () => leases.reusableLease("r"),
      () => leases.tryAcquire("r"),
    ]) {
      await expect((async () => await call())()).rejects.toBeInstanceOf(ClosedError);
    }
  });

  it("closes as soon as all is released that it held", async () => {
    const { a, clock } = leasesWorld();
    const lease = await a.acquire("r");
    const closing = a.close();
    await clock.advance(100);
    await lease.release();
    await clock.settle();
    expect(clock.monotonic()).toBe(100);
    await closing;
  });

  it("names up to five resources of work that does not stop, and how long the last is held", async () => {
    const { clock, leases, logged } = logging();
    const names = ["a", "b", "c", "d", "e", "f"];
    const ends: (() => void)[] = [];
    const runs = names.map((name, at) =>
      leases
        .run(name, { ttlMs: 10_000 + at }, () => new Promise<void>((end) => void ends.push(end)))
        .catch(() => {}),
    );
    await clock.settle();
    const closing = leases.close();
    await clock.advance(0);
    await closing;
    const fields = { resources: names.slice(0, 5), graceMs: 0, heldForMs: 9_895 };
    expect(logged).toEqual([["error", "the work does not stop", fields]]);
    for (const end of ends) end();
    await Promise.all(runs);
  });

  it("names no lease that it releases", async () => {
    const { clock, leases, logged } = logging();
    let end = () => {};
    const running = leases.run(
      "worked",
      () => new Promise<void>((resolve) => void (end = resolve)),
    );
    await leases.acquire("released");
    await clock.settle();
    const closing = leases.close();
    await clock.advance(0);
    await closing;
    expect(logged.map(([, message, fields]) => [message, fields])).toEqual([
      ["the work does not stop", expect.objectContaining({ resources: ["worked"] })],
    ]);
    end();
    await running;
  });

  it("has nothing to report of a lease that is left to expire while no work runs", async () => {
    const { clock, leases, logged } = logging();
    const lease = await leases.acquire("r");
    lease.isWorkedUnder = true;
    const closing = leases.close();
    await clock.advance(0);
    await closing;
    expect(logged).toEqual([]);
  });

  it("has nothing to report of work without a lease", async () => {
    const { clock, store, leases, logged } = logging();
    store.faults.acquire = "refuse";
    let end = () => {};
    const running = leases.run(
      "r",
      { onUnavailable: "unfenced", ttlMs: 1_000 },
      () => new Promise<void>((resolve) => void (end = resolve)),
    );
    await clock.advance(1_000);
    const closing = leases.close();
    await clock.advance(0);
    await closing;
    expect(logged.map(([level, message]) => [level, message])).toEqual([
      ["warn", "the store is unavailable: the work runs unfenced"],
    ]);
    end();
    await running;
  });
});

it("knows its new lease of a resource though the end of the last one is confirmed later", async () => {
  const { a, clock, store } = leasesWorld();
  const first = await a.acquire("r");
  store.faults.release = "cut";
  const releasing = first.release();
  await clock.settle();
  const second = await a.tryAcquire("r");
  store.faults.release = "ok";
  await clock.advance(1_000);
  await releasing;
  expect(second?.checkAlive()).toBe(true);
  expect(a.heldResources()).toEqual(["r"]);
});

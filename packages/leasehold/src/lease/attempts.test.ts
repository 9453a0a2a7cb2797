/** Attempts whose answers are lost, late, refused or no use, and what follows each. */
import { describe, expect, it } from "vitest";
import { type FaultyStore, faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { LEASE_TTL_MS, leasesWorld } from "../../../../tests/support/worlds/leases-world.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import { InvalidOptionError, StoreUnavailableError } from "./errors.js";
import type { HeldLease } from "./held-lease.js";
import type { AcquireOutcome, AcquireRequest, LeaseStore } from "./port.js";

/** An attempt gives up after this time. */
const BUDGET_MS = LEASE_TTL_MS / 2;

/** The store with another `acquire`. */
function acquiringBy(
  store: FaultyStore,
  acquire: (requests: readonly AcquireRequest[]) => Promise<AcquireOutcome[]>,
): LeaseStore {
  return { ...store, acquire };
}

const failing = (error: StoreUnavailableError | InvalidOptionError) => async () => [
  {
    status: "failed",
    applied: "no",
    retryable: error.retryable,
    error,
  } as const,
];

describe("an attempt without an answer", () => {
  it("frees its grant, and the late release does not end the grant of the next attempt", async () => {
    const { a, b, clock, store } = leasesWorld();
    store.faults.acquire = "cut";
    store.faults.release = "hold";
    const acquiring = a.acquire("r");
    await clock.advance(BUDGET_MS);
    expect(store.calls.release).toBe(1);
    store.faults.acquire = "ok";
    await clock.advance(2 * LEASE_TTL_MS);
    const lease = await acquiring;
    store.open();
    await clock.settle();
    expect(lease.checkAlive()).toBe(true);
    expect(await b.tryAcquire("r")).toBeNull();
  });

  it("ends within half of the ttl, whatever the clock says", async () => {
    const { a, clock, store } = leasesWorld();
    await clock.advance(60_000);
    store.faults.acquire = "hang";
    let endedAtMs = Number.NaN;
    const trying = a.tryAcquire("r").catch((error: unknown) => {
      endedAtMs = clock.monotonic();
      return error;
    });
    await clock.advance(2 * BUDGET_MS);
    expect(await trying).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "unknown" });
    expect(endedAtMs - 60_000).toBeGreaterThanOrEqual(BUDGET_MS);
    expect(endedAtMs - 60_000).toBeLessThan(BUDGET_MS + 100);
  });

  it("ends within half of the ttl, though its first call was refused and the second one hangs", async () => {
    const { a, clock, store } = leasesWorld();
    await clock.advance(60_000);
    store.faults.acquire = "refuse";
    let endedAtMs = Number.NaN;
    void a.tryAcquire("r").catch(() => {
      endedAtMs = clock.monotonic() - 60_000;
    });
    await clock.settle();
    store.faults.acquire = "hang";
    await clock.advance(2 * BUDGET_MS);
    expect(endedAtMs).toBeGreaterThanOrEqual(BUDGET_MS);
    expect(endedAtMs).toBeLessThan(BUDGET_MS + 100);
    expect(store.calls.acquire).toBe(2);
  });

  it("frees what its second call is granted after its caller has aborted", async () => {
    const { a, b, clock, store } = leasesWorld();
    store.faults.acquire = "refuse";
    const abort = new AbortController();
    const trying = a.tryAcquire("r", { signal: abort.signal }).catch((error: unknown) => error);
    await clock.settle();
    store.faults.acquire = "hold";
    await clock.advance(100);
    expect(store.calls.acquire).toBe(2);
    abort.abort("bye");
    expect(await trying).toBe("bye");
    store.faults.acquire = "ok";
    store.open();
    await clock.settle();
    expect(await b.tryAcquire("r")).not.toBeNull();
  });

  it("has the store's own error if each of its answers was lost", async () => {
    const { clock, env, store } = leasesWorld();
    const error = new StoreUnavailableError("cut off", { outcome: "unknown" });
    const cutting = acquiringBy(store, async () => [
      { status: "failed", applied: "maybe", retryable: true, error },
    ]);
    const leases = new LeaseClient(cutting, { env }, { close: undefined });
    const options = { ttlMs: LEASE_TTL_MS };
    const trying = leases.tryAcquire("r", options).catch((failure: unknown) => failure);
    await clock.advance(2 * BUDGET_MS);
    expect(await trying).toBe(error);
  });

  it("ends at once when its caller aborts between two calls", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "refuse";
    const abort = new AbortController();
    const trying = a.tryAcquire("r", { signal: abort.signal }).catch((error: unknown) => error);
    await clock.settle();
    abort.abort("bye");
    await clock.settle();
    expect(await trying).toBe("bye");
    expect(store.calls.acquire).toBe(1);
  });
});

describe("an attempt that is refused by a limit", () => {
  const limit = () =>
    new StoreUnavailableError("at most 1 lease", { outcome: "none", retryAfterMs: 60_000 });

  it("is not repeated before the store said, and its error is the store's own", async () => {
    const { clock, env, store } = leasesWorld();
    let calls = 0;
    const refusing = acquiringBy(store, async () => {
      calls += 1;
      return failing(limit())();
    });
    const leases = new LeaseClient(refusing, { env }, { close: undefined });
    const trying = leases.tryAcquire("r").catch((error: unknown) => error);
    await clock.advance(2 * BUDGET_MS);
    expect(await trying).toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringContaining("at most 1 lease"),
    });
    expect(calls).toBe(1);
  });
});

describe("an attempt whose pause lasts beyond its time", () => {
  it("is not sent again, and its error says why it failed", async () => {
    const { clock, env, store } = leasesWorld();
    let pausedMs = 0;
    const monotonic = () => clock.monotonic() + pausedMs;
    let calls = 0;
    const failure = new StoreUnavailableError("at most 1 lease", { outcome: "none" });
    const refusing = acquiringBy(store, async () => {
      calls += 1;
      return failing(failure)();
    });
    const leases = new LeaseClient(
      refusing,
      { env: { ...env, clock: { ...clock, monotonic } } },
      { close: undefined },
    );
    const trying = leases.tryAcquire("r").catch((error: unknown) => error);
    await clock.settle();
    pausedMs = 10 * LEASE_TTL_MS;
    await clock.advance(BUDGET_MS);
    expect(await trying).toMatchObject({ message: expect.stringContaining("at most 1 lease") });
    expect(calls).toBe(1);
  });
});

describe("an attempt without an answer that a limit then refuses", () => {
  it("is not repeated before the store said", async () => {
    const { clock, env, store } = leasesWorld();
    const lost = new StoreUnavailableError("cut off", { outcome: "unknown" });
    const limit = new StoreUnavailableError("at most 1 lease", {
      outcome: "none",
      retryAfterMs: 60_000,
    });
    let calls = 0;
    const refusing = acquiringBy(store, async () => {
      calls += 1;
      const [applied, error] = calls === 1 ? (["maybe", lost] as const) : (["no", limit] as const);
      return [{ status: "failed", applied, retryable: true, error }];
    });
    const leases = new LeaseClient(refusing, { env }, { close: undefined });
    const trying = leases.tryAcquire("r").catch((error: unknown) => error);
    await clock.advance(2 * BUDGET_MS);
    expect(await trying).toMatchObject({ outcome: "unknown", retryAfterMs: 60_000, cause: limit });
    expect(calls).toBe(2);
  });
});

describe("a grant that is of no use", () => {
  it.each([
    ["has ended before", 1],
    ["ends at this very moment", 0],
  ])("is released, with nothing unknown, if its trust %s its answer arrives", async (_, lateMs) => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "hold";
    const options = { ttlMs: 1_000, driftRatio: 0, marginMs: 100 };
    const trying = a.tryAcquire("r", options).catch((error: unknown) => error);
    await clock.settle();
    clock.jumpWall(900 + lateMs);
    store.faults.acquire = "refuse";
    store.open();
    await clock.advance(500);
    expect(await trying).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
    expect(await a.get("r")).toMatchObject({ state: "released", token: 1 });
  });

  it("leaves nothing unknown though the answer before it was lost", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "cut";
    const trying = a.tryAcquire("r", { ttlMs: 1_000 }).catch((error: unknown) => error);
    await clock.settle();
    store.faults.acquire = "hold";
    await clock.advance(50);
    clock.jumpWall(1_000);
    store.faults.acquire = "refuse";
    store.open();
    await clock.advance(500);
    expect(await trying).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
  });

  it("is followed by a new one if it has ended before its answer arrives", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "cut";
    const trying = a.tryAcquire("r");
    await clock.settle();
    await store.inner.revoke([{ namespace: "default", resource: "r", free: "now" }]);
    store.faults.acquire = "ok";
    await clock.advance(500);
    const lease = await trying;
    expect(lease?.token).toBe(2);
    expect(lease?.checkAlive()).toBe(true);
  });

  it("leaves nothing unknown if it has ended and the store then refuses", async () => {
    const { env, clock, store } = leasesWorld();
    const statuses: string[] = [];
    const watched = acquiringBy(store, async (requests) => {
      const outcomes = await store.acquire(requests);
      for (const { status } of outcomes) statuses.push(status);
      store.faults.acquire = statuses.length === 1 ? "ok" : "refuse";
      return outcomes;
    });
    const leases = new LeaseClient(watched, { env }, { close: undefined });
    store.faults.acquire = "cut";
    const trying = leases.tryAcquire("r").catch((error: unknown) => error);
    await clock.settle();
    await store.inner.revoke([{ namespace: "default", resource: "r", free: "now" }]);
    await clock.advance(10_000);
    expect(await trying).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
    expect(statuses.slice(0, 3)).toEqual(["failed", "ended", "failed"]);
    expect(store.calls.release).toBe(0);
  });
});

describe("a store none of whose answers is of use", () => {
  it.each([
    ["its answers take longer than the lease", "acquired", /took longer than the lease/],
    ["each grant has ended when its answer arrives", "ended", /ended before the store's answer/],
  ] as const)("is unavailable, without an effect: %s", async (_, status, message) => {
    const { env, clock, store } = leasesWorld();
    const ids: string[] = [];
    const acquire = async ([request]: readonly AcquireRequest[]): Promise<AcquireOutcome[]> => {
      ids.push(request?.leaseId ?? "");
      clock.jumpWall(LEASE_TTL_MS);
      if (status === "ended") return [{ status }];
      return [
        { status, token: ids.length, ttlMs: LEASE_TTL_MS, remainingMs: LEASE_TTL_MS } as never,
      ];
    };
    const leases = new LeaseClient(acquiringBy(store, acquire), { env }, { close: undefined });
    const trying = leases.tryAcquire("r", { ttlMs: LEASE_TTL_MS }).catch((error: unknown) => error);
    await clock.advance(BUDGET_MS);
    expect(await trying).toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "none",
      message: expect.stringMatching(message),
    });
    expect(ids.length).toBeGreaterThan(2);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe("a refusal that no repetition helps", () => {
  const wrong = new InvalidOptionError("ttlMs", "is too long for this store");

  it.each(["acquire", "tryAcquire"] as const)("ends %s after one call", async (how) => {
    const { env, clock, store } = leasesWorld();
    let calls = 0;
    const refusing = acquiringBy(store, () => {
      calls += 1;
      return failing(wrong)();
    });
    const leases = new LeaseClient(refusing, { env }, { close: undefined });
    const acquiring = leases[how]("r").catch((error: unknown) => error);
    await clock.advance(20_000);
    expect(await acquiring).toBe(wrong);
    expect(calls).toBe(1);
  });

  it("is the caller's own reason, even if that is an error that allows a retry", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "refuse";
    const abort = new AbortController();
    const acquiring = a.acquire("r", { signal: abort.signal }).catch((error: unknown) => error);
    await clock.settle();
    const reason = new StoreUnavailableError("another store", { outcome: "none" });
    abort.abort(reason);
    await clock.settle();
    expect(await acquiring).toBe(reason);
  });
});

it("logs each failed attempt of a patient caller, with the resource and the cause", async () => {
  const warned: [message: string, fields: object][] = [];
  const warn = (fields: object, message: string) => void warned.push([message, fields]);
  const env = manualEnv({ logger: { debug() {}, info() {}, error() {}, warn } });
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env }, { close: undefined });
  store.faults.acquire = "refuse";
  const acquiring = leases.acquire("r", { ttlMs: LEASE_TTL_MS });
  await env.clock.advance(BUDGET_MS);
  const err = expect.objectContaining({ code: "STORE_UNAVAILABLE" });
  expect(warned).toEqual([["waiting for a store that does not answer", { err, resource: "r" }]]);
  await env.clock.advance(10_000 - BUDGET_MS);
  // Ten seconds after the first failure, without a holder to name.
  await env.clock.advance(BUDGET_MS);
  const long = warned.filter(([message]) => message === "waiting for a lease");
  const fields = { resource: "r", holder: null, remainingMs: null, waitedMs: 10_000 };
  expect(long).toStrictEqual([["waiting for a lease", fields]]);
  store.faults.acquire = "ok";
  await env.clock.advance(10_000);
  await (await acquiring).release();
});

it("logs a release that no caller waits for only if the store does not confirm it", async () => {
  const warned: [message: string, fields: object][] = [];
  const warn = (fields: object, message: string) => void warned.push([message, fields]);
  const env = manualEnv({ logger: { debug() {}, info() {}, error() {}, warn } });
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env }, { close: undefined });
  for (const release of ["ok", "refuse"] as const) {
    Object.assign(store.faults, { acquire: "cut", release });
    const trying = leases.tryAcquire(release, { ttlMs: LEASE_TTL_MS }).catch(() => "failed");
    await env.clock.advance(2 * BUDGET_MS);
    expect(await trying).toBe("failed");
  }
  const err = expect.objectContaining({ code: "STORE_UNAVAILABLE" });
  expect(warned).toEqual([["gave up; not confirmed", { err, resource: "refuse" }]]);
});

describe.each([
  ["first", "ok"],
  ["second", "refuse"],
] as const)("a grant of the %s call", (_, fault) => {
  it("has no token where the store has none, and says so", async () => {
    const { env, clock, store } = leasesWorld();
    const open = (tokens: boolean) => {
      const capabilities = { ...store.capabilities, tokens };
      return new LeaseClient({ ...store, capabilities }, { env }, { close: undefined });
    };
    store.faults.acquire = fault;
    const acquiring = [false, true].map((tokens) =>
      open(tokens).acquire(`tokens: ${tokens}`, { ttlMs: LEASE_TTL_MS }),
    );
    await clock.settle();
    store.faults.acquire = "ok";
    await clock.advance(500);
    const [lease, fenced] = (await Promise.all(acquiring)) as [HeldLease, HeldLease];
    const noToken = { code: "NO_TOKEN", resource: "tokens: false" };
    expect(() => lease.token).toThrow(expect.objectContaining(noToken));
    expect(lease.tokenIfAny).toBeNull();
    expect([lease.isFenced, lease.isExclusive]).toEqual([false, true]);
    await lease.renew();
    expect(lease.checkAlive()).toBe(true);
    expect([fenced.token, fenced.tokenIfAny, fenced.isFenced]).toEqual([1, 1, true]);
  });

  it("has the metadata of the caller", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = fault;
    const acquiring = a.acquire("r", { metadata: { host: "h" } });
    await clock.settle();
    store.faults.acquire = "ok";
    await clock.advance(500);
    await acquiring;
    expect((await a.get("r"))?.metadata).toBe('{"host":"h"}');
  });
});

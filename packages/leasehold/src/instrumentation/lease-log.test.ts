import { expect, it } from "vitest";
import { grantIdOf, type Logger } from "../env/index.js";
import { connect } from "../index.js";
import { MemoryLeaseState, MemoryLeaseStore } from "../stores/memory/store.js";
import { manualEnv } from "../testing/index.js";
import { loggedLeases } from "./lease-log.js";

it("logs acquired, contended, renewed and lost leases with operation, token and latency", async () => {
  const lines: Record<string, unknown>[] = [];
  const log = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, message, ...fields });
  const logger = Object.fromEntries(
    ["debug", "info", "warn", "error"].map((level) => [level, log(level)]),
  ) as unknown as Logger;
  const first = await connect("memory:lease-log", { logger, holder: "web-1" });
  const second = await connect("memory:lease-log", { logger, holder: "web-2" });
  const lease = await first.acquire("billing", { ttlMs: 60_000 });
  expect(await second.tryAcquire("billing")).toBeNull();
  await lease.renew();
  await first.revoke("billing", { free: "now" });
  await expect(lease.renew()).rejects.toThrow("revoked");
  await Promise.all([first.close(), second.close()]);

  const durationMs = expect.any(Number);
  const grant = {
    resource: "billing",
    grantId: lease.grantId,
    fencingToken: lease.token,
  };
  const own = lines.filter(({ event }) => `${event as string}`.startsWith("lock_"));
  expect(own).toMatchObject([
    { level: "info", event: "lock_acquired", operation: "acquire", ...grant, ownerId: "web-1" },
    { level: "debug", event: "lock_contended", operation: "acquire", ownerId: "web-2" },
    { level: "debug", event: "lock_renewed", operation: "renew", ...grant, ttlSeconds: 60 },
    { level: "info", event: "lock_renewal_failed", ...grant, reason: "revoked" },
  ]);
  for (const line of own) expect(line).toMatchObject({ durationMs, resource: "billing" });
  expect(lines).toContainEqual(
    expect.objectContaining({ level: "warn", event: "lease_lost", token: lease.token }),
  );
  // No lease id is in the log.
  expect(JSON.stringify(lines)).not.toContain(lease.leaseId);
});

it("names the token and the grant of each request of a batch, as far as this client knows them", async () => {
  const env = manualEnv();
  const lines: Record<string, unknown>[] = [];
  const log = (fields: object) => void lines.push({ ...fields });
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const store = new MemoryLeaseStore(new MemoryLeaseState(env.clock));
  const logged = loggedLeases(store, { ...env, logger });
  const request = (leaseId: string, resource: string) => ({
    namespace: "n",
    resource,
    leaseId,
    holder: leaseId,
    ttlMs: 10_000,
  });
  const [a, b, c] = [request("a", "r"), request("b", "s"), request("c", "s")];
  // Of this grant, the client sees no token.
  await store.acquire([request("unseen", "t")]);
  await logged.acquire([a, b, c, request("d", "t")]);
  await store.revoke([{ namespace: "n", resource: "r", free: "now" }]);
  await logged.renew([b, a, request("e", "t")]);
  const grantId = ({ leaseId }: { leaseId: string }) => grantIdOf(leaseId);
  expect(lines.map(({ durationMs, ...line }) => line)).toMatchObject([
    { event: "lock_acquired", resource: "r", ownerId: "a", grantId: grantId(a), fencingToken: 1 },
    { event: "lock_acquired", resource: "s", ownerId: "b", grantId: grantId(b), fencingToken: 1 },
    {
      event: "lock_contended",
      ownerId: "c",
      heldBy: "b",
      grantId: grantId(b),
      fencingToken: 1,
    },
    { event: "lock_contended", resource: "t", heldBy: "unseen", fencingToken: null },
    { event: "lock_renewed", resource: "s", grantId: grantId(b), ttlSeconds: 10 },
    { event: "lock_renewal_failed", resource: "r", fencingToken: 1, reason: "revoked" },
    { event: "lock_renewal_failed", resource: "t", fencingToken: null, reason: "taken" },
  ]);
});

it("is the store itself without a logger", () => {
  const env = manualEnv();
  const store = new MemoryLeaseStore(new MemoryLeaseState(env.clock));
  expect(loggedLeases(store, env)).toBe(store);
});

it("passes the options of each call on to its store", async () => {
  const env = manualEnv();
  const log = () => {};
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const store = new MemoryLeaseStore(new MemoryLeaseState(env.clock));
  const seen: unknown[] = [];
  const note = async (requests: readonly unknown[], options: unknown) => {
    seen.push(options);
    return requests.map(() => ({ status: "none" })) as never[];
  };
  Object.assign(store, { acquire: note, renew: note, release: note, revoke: note });
  const logged = loggedLeases(store, { ...env, logger });
  const given = { timeoutMs: 700 };
  const grant = { namespace: "n", resource: "r", leaseId: "a" };
  await logged.acquire([{ ...grant, holder: "h", ttlMs: 10_000 }], given);
  await logged.renew([{ ...grant, ttlMs: 10_000 }], given);
  await logged.release([grant], given);
  await logged.revoke([{ namespace: "n", resource: "r", free: "now" }], given);
  expect(seen).toEqual([given, given, given, given]);
});

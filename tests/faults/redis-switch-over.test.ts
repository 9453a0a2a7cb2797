/**
 * A server of Redis that takes no writes any more, or none yet, while its connections stay open and its address already
 * leads to the new primary.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect, type Lease } from "../../packages/leasehold/src/index.js";
import { type RedisConnection, redis } from "../../packages/leasehold/src/stores/redis/index.js";
import { Keys } from "../../packages/leasehold/src/stores/redis/keys.js";
import { until, Watching } from "../../packages/leasehold/src/testing/waiting.js";
import { freePort } from "../support/engines/free-port.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { openTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.js";
import { endAll } from "../support/processes/processes.js";

const TTL = { ttlMs: 60_000 };
const isRenewed = (lease: Lease) =>
  lease.renew().then(
    () => true,
    () => false,
  );
const NAMESPACE = "default";
/** So that it can load for longer than a test lasts, and answers meanwhile. */
const SLOW_TO_LOAD = {
  "enable-debug-command": "local",
  "key-load-delay": "20000",
  "loading-process-events-interval-bytes": "1024",
  rdbcompression: "no",
};

describeRedis("Redis whose primary changes while its connections stay open", () => {
  let old: RedisServer;
  let next: RedisServer;
  let proxy: TcpProxy;
  const closing: (() => Promise<void>)[] = [];
  beforeEach(async () => {
    [old, next] = await Promise.all([startRedis(SLOW_TO_LOAD), startRedis()]);
    proxy = await openTcpProxy({ port: old.port });
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
    await proxy.close();
    await Promise.all([old.remove(), next.remove()]);
  });
  afterAll(() => endAll());
  const url = () => `redis://127.0.0.1:${proxy.port}`;
  const open = async () => {
    const client = await connect(url());
    closing.push(() => client.close());
    return client;
  };

  const becomesReplica = () => old.ask("replicaof", "127.0.0.1", next.port);
  const demotions: Readonly<Record<string, () => Promise<unknown>>> = {
    READONLY: becomesReplica,
    async MASTERDOWN() {
      await old.ask("config", "set", "replica-serve-stale-data", "no");
      await old.ask("replicaof", "127.0.0.1", await freePort());
    },
    NOREPLICAS: () => old.ask("config", "set", "min-replicas-to-write", 1),
    async LOADING() {
      await old.ask("debug", "populate", 20_000);
      void old.ask("debug", "reload").catch(() => {});
      const asked = new Redis(old.port, { enableReadyCheck: false });
      while (!/^loading:1/m.test(await asked.info("persistence"))) await delay(5);
      asked.disconnect();
    },
  };

  it.each(Object.entries(demotions))("is followed after %s by a single call", async (_, demote) => {
    const client = await open();
    const kept = await client.acquire("kept", TTL);
    await demote();
    proxy.redirect(next.port);
    const lease = await client.acquire("r", TTL);
    // Renewals and releases have another connection.
    await expect(kept.renew()).rejects.toMatchObject({ code: "LEASE_LOST" });
    await lease.renew();
    const record = new Keys("").record({ namespace: NAMESPACE, resource: "r" });
    expect(await next.ask("hget", record, "token")).toBe(String(lease.token));
    await lease.release();
  });

  it.each(["redlock", "redis-semaphore"] as const)(
    "is followed in the format %s",
    async (format) => {
      const client = await connect(redis({ url: url(), format }), { unfenced: true });
      closing.push(() => client.close());
      const kept = await client.acquire("kept", TTL);
      await becomesReplica();
      proxy.redirect(next.port);
      const lease = await client.acquire("r", TTL);
      await lease.renew();
      await Promise.all([kept.release(), lease.release()]);
    },
  );

  it("is followed by a renewal that comes before any other call", async () => {
    const client = await open();
    const lease = await client.acquire("kept", TTL);
    await next.ask("replicaof", "127.0.0.1", old.port);
    const held = new Keys("").record({ namespace: NAMESPACE, resource: "kept" });
    while ((await next.ask("exists", held)) !== 1) await delay(5);
    await next.ask("replicaof", "no", "one");
    await becomesReplica();
    proxy.redirect(next.port);
    await until(expect, "the next primary renews", () => isRenewed(lease));
    expect(await client.get("kept")).toMatchObject({ state: "live", token: lease.token });
    const later = await client.acquire("r", TTL);
    expect(later.token).toBeGreaterThan(lease.token);
    await Promise.all([lease.release(), later.release()]);
  });

  it("is asked for the user again where a session has lost it", async () => {
    await old.ask("config", "set", "requirepass", "secret");
    const own = new Redis(old.port, { password: "secret", lazyConnect: true });
    const opened: RedisConnection[] = [];
    const duplicate = (override: object) => {
      const connection = own.duplicate(override);
      opened.push(connection);
      return connection;
    };
    const client = await connect(
      redis({ client: { options: {}, duplicate, call: () => {} } as never }),
    );
    closing.push(() => client.close());
    const lease = await client.acquire("r", TTL);
    // The notification connection comes last.
    for (const connection of opened.slice(0, 2)) await connection.call("reset");
    expect(await opened[0]?.call("ping").catch(String)).toMatch(/NOAUTH/);
    await until(expect, "the next session renews", () => isRenewed(lease));
    const other = await client.acquire("other", TTL);
    await Promise.all([lease.release(), other.release()]);
  });

  it.each(["READONLY", "NOREPLICAS"] as const)(
    "is followed by notifications after %s",
    async (reply) => {
      const stores = await redis({ url: url() }).open(systemEnv);
      closing.push(() => stores.close());
      const { leases } = stores;
      const watching = new Watching((options) => leases.watch("n", options));
      closing.push(() => watching.stop());
      const resyncs = () => watching.events.filter(({ type }) => type === "resync").length;
      await until(expect, "the watch is active", () => resyncs() === 1);
      // What is published at the next primary does not reach this one.
      if (reply === "READONLY") await old.ask("replicaof", "127.0.0.1", await freePort());
      else await demotions[reply]?.();
      proxy.redirect(next.port);
      const leaseId = "0123456789abcdef".repeat(3);
      const asked = { namespace: "n", resource: "r", leaseId, holder: "h", ...TTL };
      const acquired = async () => (await leases.acquire([asked]))[0]?.status === "acquired";
      await until(expect, "calls have found the next primary", acquired);
      await until(expect, "the watch is active again", () => resyncs() === 2);
      await next.ask("publish", new Keys("").channel("n"), "0123456789abcdef r");
      const changed = { type: "changed", namespace: "n", resource: "r", wakes: "0123456789abcdef" };
      await until(expect, "the notification has arrived", () =>
        watching.events.some((event) => JSON.stringify(event) === JSON.stringify(changed)),
      );
    },
  );
});

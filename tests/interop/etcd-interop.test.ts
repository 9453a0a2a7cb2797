/** The real etcdctl and a store of ours contend for the same locks and elections, both ways. */
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { GrpcTransport } from "../../packages/leasehold/src/stores/etcd/grpc-transport.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import type { LeaseStores } from "../../packages/leasehold/src/stores/source.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { describeEtcd, type EtcdServer, startEtcd } from "../support/engines/etcd-engine.js";
import { endAll } from "../support/processes/processes.js";

const TTL_MS = 5_000;
/** Longer than any of etcdctl's waits here; a test that is woken by a poll alone would show. */
const FOREVER = { ttlMs: 600_000 };

describeEtcd("etcdctl and we", () => {
  let server: EtcdServer;
  let leases: Leasehold;
  let stores: LeaseStores;
  let count = 0;
  let name = "";
  beforeAll(async () => {
    server = await startEtcd();
    stores = await etcd({ url: server.url }).open(systemEnv);
  }, 30_000);
  afterEach(async () => {
    await leases?.close();
    await endAll(server.process);
  });
  afterAll(async () => {
    await stores.close();
    await server.remove();
    await endAll();
  });
  const open = async () => {
    leases = await connect(server.url, { graceMs: 0 });
    count += 1;
    name = `job ${count}`;
  };
  const keysOf = async (text: string) => {
    const keys = await server.ask("get", "--prefix", "--keys-only", text);
    return keys.split("\n").filter((line) => line !== "");
  };

  it("`etcdctl lock` waits while we hold, and has the lock when we release", async () => {
    await open();
    const lease = await leases.acquire(name, FOREVER);
    const lock = server.etcdctl("lock", name);
    await until(expect, "it waits in its queue", async () => {
      return (await keysOf(`${name}/`)).length === 2;
    });
    await lease.renew();
    expect(lock.out).toEqual([]);
    await lease.release();
    const key = await lock.until(({ out }) => out[0]);
    expect(key).toMatch(new RegExp(`^${name}/[0-9a-f]+$`));
    expect(await leases.tryAcquire(name, FOREVER)).toBe(null);
    await lock.end("SIGINT");
  });

  it("an operator of ours does not end what `etcdctl lock` holds", async () => {
    await open();
    const lock = server.etcdctl("lock", name);
    const key = await lock.until(({ out }) => out[0]);
    const request = { namespace: "default", resource: name, free: "now" } as const;
    expect(await stores.leases.revoke([request])).toEqual([{ status: "notHeld" }]);
    expect(await keysOf(`${name}/`)).toEqual([key]);
    await lock.end("SIGINT");
  });

  it("we wait while `etcdctl lock` holds, and are woken when it is done", async () => {
    await open();
    const watching = new LeaseWatching(stores.leases, "default");
    await until(expect, "the watch stands", () => watching.events.length > 0);
    const lock = server.etcdctl("lock", name);
    const key = await lock.until(({ out }) => out[0]);
    const refused = await leases.tryRun(name, FOREVER, () => {});
    const holder = `etcd lease ${key.slice(key.indexOf("/") + 1)}`;
    expect(refused).toEqual({ ran: false, holder, remainingMs: null });
    const waiting = leases.acquire(name, FOREVER);
    await lock.end("SIGINT");
    const lease = await waiting;
    const [{ CreateRevision }] = await keyValues(lease.resource);
    expect(lease.token).toBe(CreateRevision);
    await until(expect, "the notification", () =>
      watching.changed.some(({ resource }) => resource === name),
    );
    await watching.stop();
  });

  it("we are woken when the session of a killed `etcdctl lock` expires", async () => {
    await open();
    const lock = server.etcdctl("lock", "--ttl=2", name);
    await lock.until(({ out }) => out[0]);
    const waiting = leases.acquire(name, FOREVER);
    await lock.end("SIGKILL");
    const lease = await waiting;
    expect(lease.checkAlive()).toBe(true);
  });

  it("`etcdctl lock` gets the lock of a process of ours that is gone", async () => {
    await open();
    const request = { namespace: "default", resource: name, holder: "gone", ttlMs: 1_000 };
    const leaseId = "0123456789abcdef0123456789abcdef";
    const [held] = await stores.leases.acquire([{ ...request, leaseId }]);
    expect(held?.status).toBe("acquired");
    const lock = server.etcdctl("lock", name);
    await lock.until(({ out }) => out[0]);
    const [outcome] = await stores.leases.renew([{ ...request, leaseId }]);
    expect(outcome).toEqual({ status: "lost", reason: "taken" });
    await lock.end("SIGINT");
  });

  it("`etcdctl lock` takes by surprise what was ours alone for long, and so do we", async () => {
    await open();
    const calls = vi.spyOn(GrpcTransport.prototype, "call");
    onTestFinished(() => calls.mockRestore());
    const alone = await connect(server.url, { graceMs: 0 });
    const lone = async () => {
      calls.mockClear();
      const lease = await alone.acquire(name, FOREVER);
      await lease.release();
      const changes = calls.mock.calls.filter(([, method]) => method === "Txn");
      return { token: lease.token, sent: changes.map(([, , body]) => JSON.stringify(body)) };
    };
    await lone();
    const ours = await lone();
    // One transaction each, and nothing is read beside the change.
    expect(ours.sent).toHaveLength(2);
    for (const body of ours.sent) expect(body).not.toContain("request_range");

    const lock = server.etcdctl("lock", name);
    await lock.until(({ out }) => out[0]);
    expect(await alone.tryAcquire(name, FOREVER)).toBe(null);
    await lock.end("SIGINT");
    const before = await alone.acquire(name, FOREVER);
    expect(before.token).toBeGreaterThan(ours.token);
    const waiting = server.etcdctl("lock", name);
    await until(expect, "it waits in its queue", async () => {
      return (await keysOf(`${name}/`)).length === 2;
    });
    await before.release();
    await waiting.until(({ out }) => out[0]);
    await waiting.end("SIGINT");

    await lone();
    await lone();
    // Another of ours, whose record is where nothing was expected to change.
    const theirs = await leases.acquire(name, FOREVER);
    expect(await alone.tryAcquire(name, FOREVER)).toBe(null);
    await theirs.release();
    expect((await lone()).token).toBeGreaterThan(theirs.token);
    await alone.close();
  });

  it("`etcdctl elect` follows us, and shows us as the leader while we lead", async () => {
    await open();
    const lease = await leases.acquire(name, { ttlMs: TTL_MS });
    const observer = server.etcdctl("elect", "--listen", name);
    const shown = await observer.until(({ out }) => out.length >= 2 && out);
    expect(shown[0]).toMatch(new RegExp(`^${name}/[0-9a-f]+$`));
    expect(shown[1]).toBe(leases.holder);
    const candidate = server.etcdctl("elect", name, "node 7");
    await until(expect, "it waits in its queue", async () => {
      return (await keysOf(`${name}/`)).length === 2;
    });
    expect(candidate.out).toEqual([]);
    await lease.release();
    await candidate.until(({ out }) => out.includes("node 7"));
    await candidate.end("SIGINT");
  });

  it("we follow `etcdctl elect`, and know the leader by its proposal", async () => {
    await open();
    const leader = server.etcdctl("elect", name, "node 7");
    await leader.until(({ out }) => out.includes("node 7"));
    const refused = await leases.tryRun(name, FOREVER, () => {});
    expect(refused).toEqual({ ran: false, holder: "node 7", remainingMs: null });
    const waiting = leases.acquire(name, FOREVER);
    await leader.end("SIGINT");
    expect((await waiting).checkAlive()).toBe(true);
  });

  it("a crowd of both kinds is never inside together", async () => {
    await open();
    let inside = 0;
    let turns = 0;
    const enter = () => {
      inside += 1;
      turns += 1;
      expect(inside).toBe(1);
    };
    const theirs = async () => {
      const lock = server.etcdctl("lock", name);
      await lock.until(({ out }) => out[0]);
      enter();
      expect(await leases.tryAcquire(name, FOREVER)).toBe(null);
      inside -= 1;
      await lock.end("SIGINT");
    };
    const ours = () =>
      leases.run(name, FOREVER, async () => {
        enter();
        expect(await keysOf(`${name}/`)).not.toEqual([]);
        inside -= 1;
      });
    await Promise.all([...Array(4)].flatMap(() => [theirs(), ours()]));
    expect(turns).toBe(8);
  });

  it("names with a slash or a percent sign are written escaped, and none is below another", async () => {
    await open();
    const [outer, inner] = [name, `${name}/100%`];
    const within = await leases.acquire(inner, FOREVER);
    // Unescaped, the key of the inner one would keep this one taken.
    const around = await leases.acquire(outer, FOREVER);
    expect(await keysOf(`${name}%2F100%25/`)).toHaveLength(1);
    const lock = server.etcdctl("lock", `${name}%2F100%25`);
    await until(expect, "it waits in its queue", async () => {
      return (await keysOf(`${name}%2F100%25/`)).length === 2;
    });
    await within.release();
    await lock.until(({ out }) => out[0]);
    await lock.end("SIGINT");
    await around.release();
  });

  it("other namespaces and other paths have nothing to do with it", async () => {
    await open();
    const other = await connect(server.url, { namespace: "other", graceMs: 0 });
    const below = await connect(`${server.url}/apps/a`);
    const held = await Promise.all([leases, other, below].map((all) => all.acquire(name, FOREVER)));
    expect(await keysOf(`${name}/`)).toHaveLength(1);
    expect(await keysOf(`%leasehold/lock/other/${name}/`)).toHaveLength(1);
    expect(await keysOf(`apps/a/${name}/`)).toHaveLength(1);
    await Promise.all(held.map((lease) => lease.release()));
    expect(await keysOf(`${name}/`)).toEqual([]);
    const lock = server.etcdctl("lock", `apps/a/${name}`);
    await lock.until(({ out }) => out[0]);
    expect(await below.tryAcquire(name, FOREVER)).toBe(null);
    await lock.end("SIGINT");
    await Promise.all([other.close(), below.close()]);
  });

  async function keyValues(resource: string): Promise<[{ CreateRevision: number }]> {
    const text = await server.ask("get", "--prefix", `${resource}/`, "--write-out=fields");
    const revision = /"CreateRevision" : (\d+)/.exec(text)?.[1];
    return [{ CreateRevision: Number(revision) }];
  }
});

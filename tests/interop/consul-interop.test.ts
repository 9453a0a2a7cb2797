/** The real `consul lock` and a store of ours contend for the same locks, both ways. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  type ConsulServer,
  describeConsul,
  startConsul,
} from "../support/engines/consul-engine.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";

/** The longest there is here; a test that only an expiry ends would show. */
const LONG = { ttlMs: 60_000 };

interface Pair {
  readonly Session?: string;
  readonly Flags: number;
  readonly LockIndex: number;
}

describeConsul("consul lock and we", () => {
  let server: ConsulServer;
  let leases: Leasehold;
  let count = 0;
  let name = "";
  let path = "";
  beforeAll(async () => {
    server = await startConsul();
  });
  afterEach(async () => {
    await leases?.close();
    await endAll(server.process);
  });
  afterAll(async () => {
    await server.remove();
    await endAll();
  });
  const open = async () => {
    const url = `${server.url}/locks?sessionTtlMs=90000&format=consul-lock`;
    leases = await connect(url, { graceMs: 0 });
    count += 1;
    name = `job/${count}`;
    path = `locks/default/job%2F${count}`;
  };
  const pair = async (): Promise<Pair | undefined> => {
    const key = path.replace("%", "%25");
    const found = await server.api("GET", `kv/${key}/.lock`).catch(() => []);
    return (found as Pair[])[0];
  };
  /** Holds the lock until the file appears, or it is ended. */
  const lock = async (...options: string[]) => {
    const file = join(await temporaryFolder(), "go");
    const script = `echo held; while [ ! -e ${file} ]; do sleep 0.05; done`;
    const child = server.consul("lock", ...options, path, script);
    return { child, finish: () => writeFile(file, "") };
  };
  const holds = ({ child }: Awaited<ReturnType<typeof lock>>) =>
    child.until(({ out }) => out.includes("held"));

  it("`consul lock` waits while we hold, and has the lock when we release", async () => {
    await open();
    const lease = await leases.acquire(name, LONG);
    // As text: the number exceeds what a double represents.
    const text = await server.ask("kv", "get", "-detailed", `${path}/.lock`);
    expect(text).toMatch(/^Flags +3304740253564472344$/m);
    const failed = await server.consul("lock", "-try=200ms", path, "echo held").ended;
    expect(failed).toMatchObject({ code: 1, stdout: "" });
    expect(failed.stderr).not.toContain("conflict");
    const waiting = await lock();
    await lease.renew();
    expect(waiting.child.out).toEqual([]);
    await lease.release();
    await holds(waiting);
    expect(await leases.tryAcquire(name, LONG)).toBe(null);
    // Its lock is no grant of ours, which an operator could revoke.
    expect(await leases.get(name)).toMatchObject({ state: "released", token: lease.token });
    expect(await leases.revoke(name, { free: "now" })).toEqual({ status: "notHeld" });
    await waiting.finish();
    expect((await waiting.child.ended).code).toBe(0);
  });

  it("we wait while `consul lock` holds, and have the lock when it is done", async () => {
    await open();
    const holder = await lock();
    await holds(holder);
    const refused = await leases.tryRun(name, LONG, () => {});
    expect(refused).toMatchObject({ ran: false, remainingMs: null });
    const waiting = leases.acquire(name, LONG);
    await holder.finish();
    const lease = await waiting;
    expect(lease.checkAlive()).toBe(true);
    await lease.release();
    expect((await holder.child.ended).code).toBe(0);
  });

  it("`consul lock` loses its lock when its session ends, and its lock-delay keeps us out", async () => {
    await open();
    const holder = await lock();
    await holds(holder);
    const { Session = "" } = (await pair()) ?? {};
    await server.api("PUT", `session/destroy/${Session}`);
    await holder.child.ended;
    const refused = await leases.tryRun(name, LONG, () => {});
    expect(refused).toMatchObject({ ran: false });
    const lease = await leases.acquire(name, { ...LONG, waitMs: 60_000 });
    expect(lease.checkAlive()).toBe(true);
  });

  it("a semaphore of `consul lock -n` keeps us out, and we keep it out", async () => {
    await open();
    const semaphore = await lock("-n=2");
    await holds(semaphore);
    expect(await leases.tryAcquire(name, LONG)).toBe(null);
    await semaphore.finish();
    expect((await semaphore.child.ended).code).toBe(0);
    await until(expect, "the semaphore is gone", async () => (await pair()) === undefined);
    const lease = await leases.acquire(name, LONG);
    const refused = await server.consul("lock", "-n=2", "-try=200ms", path, "echo held").ended;
    expect(refused).toMatchObject({ stdout: "" });
    expect(refused.code).not.toBe(0);
    expect(lease.checkAlive()).toBe(true);
  });
});

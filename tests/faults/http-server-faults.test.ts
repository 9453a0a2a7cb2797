/**
 * The HTTP client when servers die and come back, and when event streams are cut. The tests read the
 * effect from the store behind the server.
 * @module-tag safety
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { grantIdOf, systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import type { ClaimedTask } from "../../packages/leasehold/src/tasks/port.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { createApp, listen } from "../../packages/leasehold-server/src/http/index.js";
import { freePort } from "../support/engines/free-port.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import type { FaultProxy } from "../support/faults/fault-proxy.js";
import {
  claimRequest,
  grantOf,
  hold,
  httpWorlds,
  later,
  namespace,
  newTask,
  openProxied,
  openWorld,
  requestOf,
  TTL_MS,
  taskGrantOf,
  until,
  useNamespace,
  viewOf,
  type World,
} from "../support/faults/http-world.js";
import { Cli, checkBuild } from "../support/processes/cli.js";
import { compile } from "../support/processes/compile.js";
import { TEST_LIMITS } from "../support/server/test-limits.js";

httpWorlds();

describe("a watch", () => {
  const resync = { type: "resync" };
  const changed = (resource: string) => ({
    type: "changed",
    namespace,
    resource,
    wakes: expect.any(String),
  });

  /** Releases the resource while a contender waits for it, so that all watchers are notified. */
  async function release(world: Pick<World, "behind">, resource: string): Promise<void> {
    const held = await hold(world, resource);
    const waiter = { ...requestOf(resource), queueMs: 60_000 };
    await world.behind.leases.acquire([waiter]);
    await world.behind.leases.release([grantOf(held)]);
  }

  it("resumes where its stream was cut, with the events that it missed", async () => {
    const world = await openWorld("memory");
    const { client, proxy } = world;
    const watching = new LeaseWatching(client.leases, namespace);
    await until("the first event", () => watching.events.length > 0);
    const expected: object[] = [resync];
    for (const round of ["a", "b", "c"]) {
      await release(world, `before ${round}`);
      await until("the notification", () => watching.events.length > expected.length);
      expect(proxy.cutStreams()).toBe(1);
      await release(world, `meanwhile ${round}`);
      expected.push(changed(`before ${round}`), changed(`meanwhile ${round}`));
      await until("the missed notification", () => watching.events.length >= expected.length);
      expect(watching.events).toEqual(expected);
    }
    const ids = proxy.seen.map(({ lastEventId }) => lastEventId).filter((id) => id !== null);
    expect(ids).toHaveLength(3);
    await watching.stop();
    await until("the stream has ended", () => proxy.cutStreams() === 0);
  });

  it("reads again after it has come to another server", async () => {
    const behind = later(await memory().open(systemEnv));
    const open = async (port: number) => {
      const app = createApp({
        ...behind,
        namespace,
        auth: "none",
        version: "test",
        limits: TEST_LIMITS,
      });
      return listen({ app, port, graceMs: 60_000 });
    };
    const first = await open(0);
    const { client, proxy } = await openProxied(first.port);
    const watching = new LeaseWatching(client.leases, namespace);
    await until("the first event", () => watching.events.length > 0);
    await first.close();
    await release({ behind }, "meanwhile");
    later(await open(first.port));
    await until("a second resync", () => watching.events.length > 1);
    await release({ behind }, "after");
    await until("a notification", () => watching.events.length > 2);
    expect(watching.events).toEqual([resync, resync, changed("after")]);
    expect(proxy.seen.at(-1)?.lastEventId).not.toBeNull();
    await watching.stop();
  });

  it("reports tasks too, and ends when its client closes", async () => {
    const { behind, client, proxy } = await openWorld("memory");
    const events: unknown[] = [];
    const ending = new AbortController();
    const following = (async () => {
      const { signal } = ending;
      for await (const event of client.tasks.watch(namespace, { signal })) events.push(event);
    })();
    await until("the first event", () => events.length > 0);
    await behind.tasks.enqueue([newTask({ queue: "q" })]);
    await until("the notification", () => events.length > 1);
    expect(events).toEqual([resync, { type: "ready", queue: "q" }]);
    await client.close();
    await following;
    await until("the stream has ended", () => proxy.cutStreams() === 0);
  });

  it("wakes who waits for a lease, though its streams are cut all the time", async () => {
    const world = await openWorld("memory");
    const held = await hold(world, "contended");
    const leases = later(await connect(http({ url: world.proxy.url }), { namespace }));
    const waiting = leases.acquire("contended", { ttlMs: TTL_MS });
    for (let cuts = 0; cuts < 5; ) cuts += await cutOne(world.proxy);
    await world.behind.leases.release([grantOf(held)]);
    const lease = await waiting;
    expect(lease.token).toBeGreaterThan(held.token);
    await lease.release();
    await until("no stream is left", () => world.proxy.cutStreams() === 0);
  });

  it("does not keep a process alive after its last waiter has left", async () => {
    useNamespace("default");
    const { proxy } = await openWorld("memory");
    const source = new URL("../support/processes/wait-and-idle.ts", import.meta.url);
    const program = await compile(source);
    try {
      const ended = await promisify(execFile)(process.execPath, [program.path, proxy.url]);
      expect(ended.stdout).toBe("released\n");
    } finally {
      await program.remove();
    }
    expect(proxy.seen.filter(({ path }) => path === "/v1/events?of=leases")).not.toEqual([]);
  });

  async function cutOne(proxy: FaultProxy): Promise<number> {
    let cut = 0;
    await until("a stream", () => {
      cut = proxy.cutStreams();
      return cut > 0;
    });
    return cut;
  }
});

describePostgres("a server that is killed", () => {
  beforeAll(checkBuild);
  const PATIENT = { timeoutMs: 25_000 };

  beforeEach(() => {
    useNamespace("default");
  });

  async function openServed() {
    const { url, drop } = await freshDatabase();
    later({ close: drop });
    const behind = later(await openPostgres({ url }, systemEnv));
    const port = await freePort();
    const start = async () => {
      const cli = new Cli(["serve", "--store", url, "--port", String(port)]);
      await cli.until(({ err }) => err.some((line) => line.includes("listening on")));
      return cli;
    };
    return { behind, port, start, server: await start() };
  }

  it("and started again between two calls is the same to its clients", async () => {
    const { behind, port, start, server } = await openServed();
    const client = later(await http({ url: `http://127.0.0.1:${port}` }).open(systemEnv));
    const request = requestOf("r");
    const first = only(await client.leases.acquire([request]));
    if (first.status !== "acquired") throw new Error(first.status);
    await behind.tasks.enqueue([newTask(), newTask()]);
    const claiming = claimRequest();
    const claimed = await client.tasks.claim({ ...claiming, limit: 1 });
    await server.end("SIGKILL");

    const renewing = client.leases.renew([{ ...grantOf(request), ttlMs: TTL_MS }], PATIENT);
    const again = client.leases.acquire([request], PATIENT);
    const claimedAgain = client.tasks.claim({ ...claiming, limit: 1 }, PATIENT);
    await start();
    expect(await renewing).toMatchObject([{ status: "renewed", token: first.token }]);
    expect(await again).toMatchObject([{ status: "acquired", token: first.token }]);
    expect(await viewOf({ behind })).toMatchObject({ token: first.token, state: "live" });
    const { status, tasks } = (await claimedAgain) as Extract<typeof claimed, { tasks: unknown }>;
    expect(status).toBe("claimed");
    const before = (claimed as { tasks: readonly ClaimedTask[] }).tasks;
    expect(tasks.map(taskGrantOf)).toEqual(before.map(taskGrantOf));
    expect(await behind.tasks.counts(namespace)).toMatchObject({ running: 1, pending: 1 });
    expect(await client.leases.release([grantOf(request)])).toEqual([{ status: "released" }]);
  });

  it("in the middle of a call, after it has acted, has acted once", async () => {
    const { behind, port, start, server } = await openServed();
    const { client, proxy } = await openProxied(port);
    const before = proxy.seen.length;
    proxy.next(async ({ forward, cut }) => {
      await forward();
      await server.end("SIGKILL");
      cut();
    });
    const request = requestOf("r");
    const acquiring = client.leases.acquire([request], PATIENT);
    await until("the client has tried again", () => proxy.seen.length > before + 2);
    await start();
    const view = await viewOf({ behind });
    expect(await acquiring).toMatchObject([{ status: "acquired", token: view.token }]);
    expect(view.grantId).toBe(grantIdOf(request.leaseId));
    const budgets = proxy.seen.slice(before).map(({ budgetMs }) => budgetMs ?? Number.NaN);
    expect(budgets[0]).toBeLessThanOrEqual(PATIENT.timeoutMs);
    for (const [index, budget] of budgets.slice(1).entries()) {
      expect(budget).toBeLessThan(budgets[index] ?? 0);
    }
  });

  it("while a claim waits in it, does not end the wait", async () => {
    const { behind, port, start, server } = await openServed();
    const { client, proxy } = await openProxied(port);
    const before = proxy.seen.length;
    const request = { ...claimRequest(), waitMs: 25_000 };
    const waiting = client.tasks.claim(request, { timeoutMs: 30_000 });
    await until("it waits", () => proxy.seen.length > before);
    await server.end("SIGKILL");
    await start();
    const task = newTask();
    await behind.tasks.enqueue([task]);
    expect(await waiting).toMatchObject({
      status: "claimed",
      tasks: [{ id: task.id, attempt: 1 }],
    });
    expect(await behind.tasks.counts(namespace)).toMatchObject({ running: 1, pending: 0 });
  });
});

/**
 * Clients that disconnect while they wait: for a task, for events, in the wait queue of a lease, and before a
 * guard. Afterwards nothing waits for them, and the next caller proceeds at once.
 */
import { once } from "node:events";
import pg from "pg";
import { afterEach, describe, expect, it } from "vitest";
import { newLeaseId, systemEnv } from "../../packages/leasehold/src/env/index.js";
import {
  FENCE_TABLE,
  type Guard,
  memoryGuard,
  sqlGuard,
} from "../../packages/leasehold/src/fence/index.js";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { CONTROL_ENGINES } from "../support/engines/control-engines.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import {
  connected,
  messageOf,
  openDisconnecting,
  openTransactions,
} from "../support/faults/disconnecting.js";
import { FENCED_SERVERS } from "../support/server/fenced-servers.js";
import { HOSTS, Requests } from "../support/server/http-hosts.js";
import { instead } from "../support/worlds/instead.js";

const NAMESPACE = "default";
const { random } = systemEnv;
const ENGINES = CONTROL_ENGINES.filter(({ name }) => name !== "PGlite");

const PATIENT = { timeout: 60_000, interval: 10 };

/** Neither the time of a wait ends it, nor a poll: only the client that disconnects. */
const WITHOUT_TIMERS = {
  ...systemEnv,
  clock: instead(systemEnv.clock, { timer: () => ({ cancel() {} }) }),
};

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(
  engine: (typeof ENGINES)[number] | undefined,
  host = "listen()",
  options?: Parameters<typeof openDisconnecting>[2],
) {
  if (!engine) throw new Error("no engine");
  const stores = await engine.open();
  closing.push(() => stores.close());
  const opened = await openDisconnecting(stores, host, options);
  closing.push(opened.close);
  const { ask } = opened;
  const next = (more: object = {}) => ({
    method: "POST",
    path: "/api/tasks/next",
    body: { processor: "worker", ...more },
  });
  const enqueue = async () => {
    const { text } = await ask({ method: "POST", path: "/api/tasks", body: { task_data: 1 } });
    return (JSON.parse(text) as { id: string }).id;
  };
  const claim = async (more: object = {}) => {
    const { status, text } = await ask(next(more));
    expect([200, 204]).toContain(status);
    type Task = { id: string; leaseId: string; attempt: number };
    return status === 204 ? [] : (JSON.parse(text) as { tasks: Task[] }).tasks;
  };
  return { ...opened, stores, next, enqueue, claim };
}

for (const host of Object.keys(HOSTS)) {
  describe(`in ${host}, a client that disconnects`, () => {
    it("while it waits for a task takes none, and its wait ends", async () => {
      const { begin, gate, idle, next, enqueue, claim } = await open(ENGINES[0], host, {
        env: WITHOUT_TIMERS,
      });
      const claimed = new Promise<void>((resolve) => {
        const stop = gate.onAnswer(() => {
          stop();
          resolve();
        });
      });
      const waiting = await begin(next({ waitMs: 20_000 }));
      await claimed;
      await waiting.leave();
      await idle();
      const id = await enqueue();
      // It waits itself, where there is room for one.
      expect(await claim({ waitMs: 20_000 })).toMatchObject([{ id, attempt: 1 }]);
    });

    it("with a stream of events leaves no stream", async () => {
      const { ask, begin, requests } = await open(ENGINES[0], host);
      for (const path of ["/v1/events", "/v1/activity"]) {
        const stream = { method: "GET", path };
        const unread = await begin(stream);
        await unread.leave();
        const read = await begin(stream);
        await once(read.socket, "data");
        expect((await ask(stream)).status, "room for one").toBe(429);
        await read.leave();
        expect((await ask(stream)).status).toBe(200);
      }
      expect(await requests.connections()).toBeLessThanOrEqual(1);
    });

    it("without reading its stream keeps none of the events that others get", async () => {
      const { ask, begin, enqueue } = await open(ENGINES[0], host);
      const stuck = await begin({ method: "GET", path: "/v1/activity?last=0" });
      await once(stuck.socket, "readable");
      for (let count = 0; count < 50; count += 1) await enqueue();
      await stuck.leave();
      expect((await ask({ method: "GET", path: "/v1/activity" })).status).toBe(200);
    });
  });
}

for (const engine of ENGINES) {
  engine.describe(`over ${engine.name}, a client that disconnects`, () => {
    it("while the store claims for it leaves the task to the next, or to its own repetition", async () => {
      const { leave, next, enqueue, claim } = await open(engine);
      for (const moment of [
        "while its call is on the way to the store",
        "after the store has acted",
      ] as const) {
        const requeued = await enqueue();
        await leave(moment, next());
        expect(await claim(), moment).toMatchObject([{ id: requeued, attempt: 2 }]);

        const kept = await enqueue();
        const claimId = newLeaseId(random);
        await leave(moment, next({ claimId }));
        expect(await claim(), moment).toEqual([]);
        expect(await claim({ claimId }), moment).toMatchObject([{ id: kept, attempt: 1 }]);
      }
    });
  });
}

// The memory store does not list its wait queues.
for (const engine of ENGINES.filter(({ name }) => name === "PostgreSQL")) {
  engine.describe(`over ${engine.name}, a client that disconnects`, () => {
    it("in the wait queue of a lease leaves it by a release, and waits no longer", async () => {
      const { ask, leave, stores } = await open(engine);
      const key = { namespace: NAMESPACE, resource: "contended" };
      const leaseId = () => toWireLeaseId(key.resource, newLeaseId(random));
      const acquire = (id: string, more: object = {}) => ({
        method: "POST",
        path: "/v1/leases/acquire",
        body: [{ leaseId: id, holder: "h", ttlMs: 60_000, ...more }],
      });
      const release = (id: string) =>
        ask({ method: "POST", path: "/v1/leases/release", body: [{ leaseId: id }] });
      const [holder, waiter] = [leaseId(), leaseId()];
      await ask(acquire(holder));
      await leave("after the store has acted", acquire(waiter, { queueMs: 60_000 }));
      expect(await stores.waiters?.(key)).toHaveLength(1);
      await release(waiter);
      expect(await stores.waiters?.(key)).toEqual([]);
      await release(holder);
      expect(JSON.parse((await ask(acquire(leaseId()))).text)).toMatchObject([
        { status: "acquired" },
      ]);
    });
  });

  engine.describe(`over ${engine.name}, a caller that gives up`, () => {
    type Wait = (client: Leasehold, signal: AbortSignal) => Promise<unknown>;
    const WAITS: Readonly<Record<string, Wait>> = {
      acquire: (client, signal) => client.acquire("r", { signal }),
      run: (client, signal) => client.run("r", { signal }, () => {}),
      acquireAll: (client, signal) => client.acquireAll(["a", "r"], { signal }),
      elector: (client, signal) => client.elector("r").lead(() => {}, { signal }),
    };
    const key = { namespace: NAMESPACE, resource: "r" };

    it("leaves no waiter, call or stream", async () => {
      const { url, stores, gate, idle, requests } = await open(engine, "listen()", { room: {} });
      const queued = async () => (await stores.waiters?.(key))?.length;
      const ways = Object.keys(WAITS).flatMap((name) => [`${name} aborts`, `${name} closes`]);
      for (const way of ways) {
        const [name = "", ends] = way.split(" ");
        await using holder = await connect(url);
        await using next = await connect(url);
        await using client = await connect(url);
        const held = await holder.acquire("r");
        const leaving = new AbortController();
        const waiting = WAITS[name]?.(client, leaving.signal).catch(() => {});
        await expect.poll(queued, { ...PATIENT, message: way }).toBe(1);
        if (ends === "aborts") leaving.abort();
        else await client.close();
        await waiting;
        await expect.poll(queued, { ...PATIENT, message: way }).toBe(0);
        await held.release();
        const acquired = await next.tryAcquire("r");
        expect(acquired?.token, way).toBeGreaterThan(held.token);
        await acquired?.release();
        const other = await next.tryAcquire("a");
        expect(other, way).not.toBeNull();
        await other?.release();
        await client.close();
      }
      await idle();
      expect(gate.inFlight).toBe(0);
      await expect.poll(() => requests.streams(), PATIENT).toBe(0);
    });
  });
}

describe.each(FENCED_SERVERS)("before a guard in %s, a client that disconnects", (name, serve) => {
  /** `begun` has the end of each handler's work, in the order in which they began. */
  async function openGuarded(guard: Guard) {
    const requests = new Requests();
    const begun: (() => void)[] = [];
    const site = await serve(async () => {
      await new Promise<void>((end) => begun.push(end));
      return "done";
    }, guard);
    closing.push(async () => requests.close(), site.close);
    closing.push(async () => begun.forEach((end) => end()));
    const { port, pathname } = new URL(site.url);
    const send = async (token: number) => {
      const id = `guarded-${token}`;
      const headers = { "fencing-token": `${token}` };
      const socket = await connected(Number(port));
      const request = { method: "POST", path: pathname, headers };
      socket.write(messageOf(request, id).join(""));
      await requests.started(id);
      return {
        answered: () => once(socket, "data").then(([bytes]) => String(bytes).slice(9, 12)),
        async leave() {
          socket.destroy();
          await requests.closed(id);
        },
      };
    };
    return { begun, send };
  }

  async function exercise(guard: Guard) {
    const { begun, send } = await openGuarded(guard);
    const working = await send(10);
    await expect.poll(() => begun.length, PATIENT).toBe(1);
    const waiting = await send(11);
    await waiting.leave();
    const next = await send(12);
    const answered = next.answered();
    const worked = working.answered();
    begun[0]?.();
    expect(await worked).toBe("200");
    await expect.poll(() => begun.length, PATIENT).toBe(2);
    begun[1]?.();
    expect(await answered).toBe("200");

    const disconnected = await send(13);
    await expect.poll(() => begun.length, PATIENT).toBe(3);
    await disconnected.leave();
    // Hono tells when a handler ends, the others do not: they let the next one in when the client has gone.
    if (name === "Hono") begun[2]?.();
    const last = await send(14);
    await expect.poll(() => begun.length, PATIENT).toBe(4);
    const end = last.answered();
    begun[3]?.();
    expect(await end).toBe("200");
    begun[2]?.();
  }

  it("while it waits or works holds up no other", () => exercise(memoryGuard()));

  describePostgres("with a guard in PostgreSQL", () => {
    it("while it waits or works leaves no transaction open", async () => {
      const { url, drop } = await freshDatabase();
      const pool = new pg.Pool({ connectionString: url });
      closing.push(async () => {
        await pool.end();
        await drop();
      });
      await pool.query(FENCE_TABLE);
      const transaction = async <T>(work: (tx: pg.PoolClient) => Promise<T>): Promise<T> => {
        const client = await pool.connect();
        try {
          await client.query("BEGIN");
          const result = await work(client);
          await client.query("COMMIT");
          return result;
        } catch (error) {
          await client.query("ROLLBACK");
          throw error;
        } finally {
          client.release();
        }
      };
      await exercise(sqlGuard(transaction));
      await expect.poll(() => pool.totalCount - pool.idleCount, PATIENT).toBe(0);
      expect(await openTransactions((text) => pool.query(text).then(({ rows }) => rows))).toEqual(
        [],
      );
    });
  });
});

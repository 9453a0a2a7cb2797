import { setMaxListeners } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/engines/postgres.js";
import { type Clock, type Env, silentLogger, systemClock, systemEnv } from "../../env/index.js";
import type { Backend } from "./connection.js";
import { openPostgres, type PostgresDatabase } from "./index.js";
import { DEFAULT_SCHEMA } from "./schema.js";
import { Listener, type Notification, watchEvents } from "./watch.js";

const everything = (notification: Notification) => notification;
const RESYNC = { type: "resync" };

describePostgres("notifications of a server", () => {
  let fresh: FreshDatabase;
  let database: PostgresDatabase;
  let admin: pg.Client;
  beforeAll(async () => {
    fresh = await freshDatabase();
    database = await openPostgres({ url: fresh.url }, systemEnv);
    admin = new pg.Client({ connectionString: fresh.url });
    await admin.connect();
  });
  afterAll(async () => {
    await database?.close();
    await admin?.end();
    await fresh.drop();
  });

  const send = (payload: string) => admin.query("SELECT pg_notify('leasehold', $1)", [payload]);
  const watch = (signal: AbortSignal) =>
    watchEvents(database.connections.listener, everything, [signal]);

  it("reach every watcher, after a resync; malformed ones are ignored", async () => {
    const { signal } = new AbortController();
    const watchers = [watch(signal), watch(signal)];
    for (const watcher of watchers) expect((await watcher.next()).value).toEqual(RESYNC);
    for (const foreign of ["", "x", "{}", '["a"]', '["a",1,"b"]']) await send(foreign);
    await send(JSON.stringify(["lease", "n", "r\n'\"ü"]));
    for (const watcher of watchers) {
      expect((await watcher.next()).value).toEqual(["lease", "n", "r\n'\"ü"]);
      await watcher.return();
    }
  });

  it("resync and continue after the connection was lost", async () => {
    const watcher = watch(new AbortController().signal);
    expect((await watcher.next()).value).toEqual(RESYNC);
    for (let round = 0; round < 3; round++) {
      const { rows } = await admin.query(
        `SELECT count(pg_terminate_backend(pid))::int AS ended FROM pg_stat_activity
         WHERE datname = current_database() AND query = 'LISTEN leasehold'`,
      );
      expect(rows).toEqual([{ ended: 1 }]);
      expect((await watcher.next()).value).toEqual(RESYNC);
      await send(JSON.stringify(["lease", "n", `round ${round}`]));
      expect((await watcher.next()).value).toEqual(["lease", "n", `round ${round}`]);
    }
    await watcher.return();
  });

  it("end with the signal, also while none comes", async () => {
    const controller = new AbortController();
    const watcher = watch(controller.signal);
    await watcher.next();
    const next = watcher.next();
    controller.abort();
    expect(await next).toEqual({ done: true, value: undefined });
  });

  it("leave nothing behind on the signals, however many watch", async () => {
    const signal = new AbortController().signal;
    setMaxListeners(0, signal);
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on("warning", onWarning);
    const added = vi.spyOn(AbortSignal.prototype, "addEventListener");
    const removed = vi.spyOn(AbortSignal.prototype, "removeEventListener");
    const any = vi.spyOn(AbortSignal, "any");
    try {
      const { leases, tasks } = database;
      const watchers = Array.from({ length: 24 }, (_, index) =>
        (index % 2 ? leases : tasks).watch("n", { signal })[Symbol.asyncIterator](),
      );
      for (const watcher of watchers) expect((await watcher.next()).value).toEqual(RESYNC);
      for (const watcher of watchers) await watcher.return?.();
      // Each watch listens to its caller's signal and to its store's.
      expect(added).toHaveBeenCalledTimes(48);
      const listeners = (spy: typeof added | typeof removed) =>
        spy.mock.calls.map(([, listener], index) => [spy.mock.contexts[index], listener]);
      expect(listeners(removed)).toEqual(listeners(added));
      expect(any).not.toHaveBeenCalled();
      await new Promise(setImmediate);
      expect(warnings).toEqual([]);
    } finally {
      process.off("warning", onWarning);
      vi.restoreAllMocks();
    }
  });

  it("that are not read in time become one resync", async () => {
    const watcher = watch(new AbortController().signal);
    await watcher.next();
    const pending = watcher.next();
    await send('["lease","n","first"]');
    expect((await pending).value).toEqual(["lease", "n", "first"]);
    await admin.query(
      "SELECT pg_notify('leasehold', json_build_array('lease', 'n', g::text)::text) FROM generate_series(1, 1500) g",
    );
    const other = watch(new AbortController().signal);
    await other.next();
    await send('["lease","n","last"]');
    // Notifications arrive in order: by then the first watcher has received every event.
    let heard: unknown;
    while (JSON.stringify(heard) !== '["lease","n","last"]') heard = (await other.next()).value;
    expect((await watcher.next()).value).toEqual(RESYNC);
    await Promise.all([watcher.return(), other.return()]);
  });

  it("end for good when the database is closed", async () => {
    const watcher = watch(new AbortController().signal);
    await watcher.next();
    const next = watcher.next();
    await database.close();
    expect((await next).done).toBe(true);
    expect((await watch(new AbortController().signal).next()).done).toBe(true);
  });

  it("are not requested with ?watch=poll: one resync, then silence", async () => {
    const polling = await openPostgres({ url: `${fresh.url}?watch=poll` }, systemEnv);
    expect(polling.leases.capabilities.watch).toBe("poll");
    const controller = new AbortController();
    const watcher = polling.leases
      .watch("n", { signal: controller.signal })
      [Symbol.asyncIterator]();
    expect((await watcher.next()).value).toEqual(RESYNC);
    const next = watcher.next();
    controller.abort();
    expect((await next).done).toBe(true);
    await polling.close();
    await expect(openPostgres({ url: `${fresh.url}?watch=push` }, systemEnv)).rejects.toMatchObject(
      { code: "INVALID_OPTION", path: "url: ?watch" },
    );
  });
});

describePostgres("notifications of a server behind a proxy", () => {
  let fresh: FreshDatabase;
  let url: URL;
  let up = true;
  let refused = 0;
  const sockets = new Set<Socket>();
  // Acts like a load balancer: always accepts, and hangs up while the server behind it is unavailable.
  const proxy = createServer((socket) => {
    socket.on("error", () => {});
    if (!up) {
      refused += 1;
      socket.destroy();
      return;
    }
    const onward = connect(Number(new URL(fresh.url).port), "127.0.0.1");
    onward.on("error", () => {});
    onward.on("close", () => socket.destroy());
    socket.on("close", () => {
      sockets.delete(socket);
      onward.destroy();
    });
    sockets.add(socket);
    socket.pipe(onward).pipe(socket);
  });
  beforeAll(async () => {
    fresh = await freshDatabase();
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    url = new URL(fresh.url);
    url.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => proxy.close(resolve));
    await fresh.drop();
  });

  it("are retried by one loop while the server hangs up, and use one session afterwards", async () => {
    let losses = 0;
    let backoffs = 0;
    let mostBackoffs = 0;
    const clock: Clock = {
      ...systemClock,
      timer(delayMs, callback, options) {
        if (up || !options?.background) return systemClock.timer(delayMs, callback, options);
        // While the server is unavailable, the only such timers are the delays between attempts.
        backoffs += 1;
        mostBackoffs = Math.max(mostBackoffs, backoffs);
        const onTime = () => {
          backoffs -= 1;
          callback();
        };
        return systemClock.timer(delayMs / 50, onTime, options);
      },
    };
    const warn = () => {
      losses += 1;
    };
    const env: Env = { ...systemEnv, clock, logger: { ...silentLogger, warn } };
    const database = await openPostgres({ url }, env);
    const watcher = watchEvents(database.connections.listener, everything, []);
    expect((await watcher.next()).value).toEqual(RESYNC);

    up = false;
    for (const socket of sockets) socket.destroy();
    await vi.waitFor(() => expect(refused).toBeGreaterThanOrEqual(10), { timeout: 20_000 });
    up = true;
    expect((await watcher.next()).value).toEqual(RESYNC);
    expect(losses).toBe(1);
    expect(mostBackoffs).toBe(1);
    const [sessions] = await database.connections.backend.general.query(
      `SELECT count(*)::int AS count FROM pg_stat_activity
       WHERE datname = current_database() AND query = 'LISTEN leasehold'`,
    );
    expect(sessions).toEqual({ count: 1 });
    await watcher.return();
    await database.close();
  });
});

describe("a database whose notifications do not arrive", () => {
  it("is polled, and left alone", async () => {
    let stopped = 0;
    const sql = { query: async () => [], transaction: () => expect.unreachable() };
    const backend: Backend = {
      name: "a pooler",
      schema: DEFAULT_SCHEMA,
      general: sql,
      control: sql,
      listen: async () => ({
        stop: async () => {
          stopped += 1;
        },
      }),
      close: async () => {},
    };
    const listener = await Listener.open(backend, systemEnv);
    expect(listener.mode).toBe("poll");
    expect(stopped).toBe(1);
    await listener.close();
  });
});

describe("a database that has no connection left for notifications", () => {
  it("is unavailable, as for any other reason", async () => {
    const sql = { query: async () => [], transaction: () => expect.unreachable() };
    const cause = Object.assign(new Error("too many clients"), {
      severity: "FATAL",
      code: "53300",
    });
    const backend: Backend = {
      name: "a full server",
      schema: DEFAULT_SCHEMA,
      general: sql,
      control: sql,
      close: async () => {},
      listen: () => Promise.reject(cause),
    };
    await expect(Listener.open(backend, systemEnv)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "none",
      cause,
    });
  });
});

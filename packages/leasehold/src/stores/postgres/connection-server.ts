/** A PostgreSQL server: by URL through the store's own pools, or through the user's pool. */

import type { Env } from "../../env/index.js";
import { driverError, driverPart } from "../../store-kit/driver.js";
import { openTls } from "../../store-kit/tls-connections.js";
import type { RawBackend, Subscription } from "./connection.js";
import { readAddress } from "./connection-address.js";
import { Demotions } from "./connection-demotions.js";
import type { PgClient, PgPool } from "./connection-drivers.js";
import { Prepared, poolSql, sessionOf } from "./connection-pool.js";
import { Primary } from "./connection-primary.js";
import { isTooMany } from "./failures.js";
import { checkWritable } from "./session-checks.js";

/** For acquires, reads and tasks. More connections would not speed up a database with few cores. */
const GENERAL_CONNECTIONS = 8;
/**
 * For renewals, releases and heartbeats, two statements of each in flight, so no kind waits for
 * another.
 */
const CONTROL_CONNECTIONS = 6;
/**
 * Connections opened at once and kept for the pool above, as many as renewals use. A caller that finds
 * none free waits for a new one to open, even if another becomes free meanwhile. On an overloaded
 * machine that takes longer than a lease lasts.
 */
const KEPT_CONNECTIONS = 2;
/** A pool that could not grow, because the server limits connections, does not try again for this long. */
const LIMITED_MS = 60_000;
/** How long a connection may take to open, unless the caller of `connect` waits for longer. */
const CONNECT_TIMEOUT_MS = 5_000;

/** Of pg, and the server to connect to. */
interface ClientSettings {
  readonly url?: string;
  readonly [name: string]: unknown;
}

async function importDriver() {
  try {
    return await import("pg");
  } catch (error) {
    throw driverError("pg", error);
  }
}

/**
 * @param url `postgres://user:password@host:port/database`, or several `host:port` with commas between them, with the parameters of pg, `watch=poll` behind a pooler in
 *   transaction mode, and `schema=NAME`, which the opening of the store reads
 * @param givenUp cuts the connections that are being opened, which would otherwise wait for their timeout
 * @param timeoutMs how long the caller waits for the opening
 */
export async function serverBackend(
  url: string,
  { clock, logger }: Env,
  givenUp?: AbortSignal,
  timeoutMs = CONNECT_TIMEOUT_MS,
): Promise<RawBackend> {
  const { urls, name, isPolled, files } = readAddress(url);
  // pg reads the files for each connection, and a mistake in them would look like an outage.
  await openTls(undefined, files, "PostgreSQL");
  const { Client, Pool } = driverPart("pg", (await importDriver()).default);
  const config = {
    fallback_application_name: "leasehold",
    connectionTimeoutMillis: Math.max(CONNECT_TIMEOUT_MS, timeoutMs),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
  // A pool does not name the clients that are still connecting.
  const connecting = new Set<object>();
  class Connecting extends Client {
    constructor({ url: own = primary.url, ...settings }: ClientSettings = {}) {
      super({ ...settings, connectionString: own });
      connecting.add(this);
      for (const event of ["connect", "end"]) {
        this.once(event, () => connecting.delete(this));
      }
    }
  }
  const cut = () => {
    for (const client of connecting) streamOf(client)?.destroy(new Error("given up"));
  };
  givenUp?.addEventListener("abort", cut, { once: true });
  const primary = new Primary(urls, async (asked, over) => {
    const client = new Connecting({ ...config, url: asked });
    client.on("error", () => {});
    over.addEventListener("abort", () => streamOf(client)?.destroy(new Error("given up")));
    await client.connect();
    try {
      await checkWritable(sessionOf(client));
    } finally {
      void client.end().catch(() => {});
    }
  });
  const demotions = new Demotions();
  const openPool = (max: number, min: number): PgPool & { end(): Promise<void> } => {
    // Idle connections do not keep the process alive.
    const pool = new Pool({ ...config, max, min, allowExitOnIdle: true, Client: Connecting });
    pool.on("release", (error) => error && primary.doubt());
    // After an idle connection is lost, the next caller gets another one.
    pool.on("error", (error) => {
      logger.debug({ err: error }, "an idle connection was lost");
      primary.doubt();
    });
    // A closing connection is neither idle nor in use; its unhandled error would end the process.
    pool.on("connect", (client) => {
      client.on("error", () => {});
      demotions.opened(client);
    });
    let limitedUntilMs = 0;
    return {
      async connect() {
        await primary.find();
        if (clock.monotonic() >= limitedUntilMs) pool.options.max = max;
        for (;;) {
          try {
            return await pool.connect();
          } catch (error) {
            // Waits for one of the connections that the pool has.
            if (isTooMany(error) && pool.totalCount > 0) {
              pool.options.max = pool.totalCount;
              limitedUntilMs = clock.monotonic() + LIMITED_MS;
              continue;
            }
            primary.doubt();
            throw error;
          }
        }
      },
      end: () => pool.end(),
    };
  };
  const prepared = new Prepared();
  // One of each pool and the subscription are what a client needs: the server may allow no more.
  const general = openPool(GENERAL_CONNECTIONS, 1);
  const control = openPool(CONTROL_CONNECTIONS, KEPT_CONNECTIONS);
  let opening = openAhead(control, 1);
  return {
    name,
    general: poolSql(general, clock, prepared, demotions),
    control: poolSql(control, clock, prepared, demotions),
    prepare: () => prepared.enable(),
    listen: isPolled
      ? null
      : async (channel, onPayload, onLost) => {
          await Promise.all([primary.find(), opening]);
          const client = new Connecting(config);
          const subscription = await subscribe(client, channel, onPayload, onLost, {
            demotions,
            open: () => client.connect(),
            // A subscription alone does not keep the process alive either. (The types lack this
            // method.)
            rest: () => (client as unknown as { unref(): void }).unref(),
            // Does not wait for the close. The server may be gone, and the connection does not keep the
            // process alive, so the process could exit during the wait.
            close: async () => void client.end().catch(() => {}),
          });
          opening = openAhead(control, KEPT_CONNECTIONS);
          return subscription;
        },
    async close() {
      await opening;
      await Promise.all([general.end(), control.end()]);
    },
  };
}

/** pg exposes the underlying socket, although its types omit it. */
function streamOf(client: object): { destroy(error: Error): void } | undefined {
  return (client as { connection?: { stream?: { destroy(error: Error): void } } }).connection
    ?.stream;
}

/** Opens connections in advance. Never rejects: a caller that needs a connection gets the error. */
async function openAhead(pool: Pick<PgPool, "connect">, count: number): Promise<void> {
  // The pool throws synchronously if its settings are invalid.
  const open = async () => (await pool.connect()).release();
  await Promise.allSettled(Array.from({ length: count }, open));
}

/**
 * A store over the user's pool. It never closes the pool, and keeps one of its connections for
 * notifications.
 */
export function poolBackend(pool: PgPool, watch: "push" | "poll", { clock }: Env): RawBackend {
  const demotions = new Demotions();
  const sql = poolSql(pool, clock, new Prepared(), demotions);
  // A pool's only connection cannot be kept for notifications.
  const poll = watch === "poll" || pool.options?.max === 1;
  return {
    name: "PostgreSQL over the user's pool",
    general: sql,
    control: sql,
    listen: poll
      ? null
      : async (channel, onPayload, onLost) => {
          const client = await demotions.take(pool);
          return subscribe(client, channel, onPayload, onLost, {
            demotions,
            open: async () => {},
            rest: () => {},
            close: async () => client.release(true),
          });
        },
    close: async () => {},
  };
}

async function subscribe(
  client: PgClient,
  wanted: string,
  onPayload: (payload: string) => void,
  onLost: (error: Error) => void,
  {
    demotions,
    open,
    rest,
    close,
  }: {
    demotions: Demotions;
    open: () => Promise<unknown>;
    rest: () => void;
    close: () => Promise<void>;
  },
): Promise<Subscription> {
  let established = false;
  let early: Error | undefined;
  let over = false;
  const stop = async () => {
    if (over) return;
    over = true;
    stopListening();
    await close();
  };
  const lost = (error: Error) => {
    if (over) return;
    // A session that ends before it listens (a proxy accepts while the server behind it is down) is a
    // failure to subscribe. The rejection below reports it once.
    if (!established) {
      early ??= error;
      return;
    }
    // Ends the session; a failure to do so is irrelevant.
    void stop().catch(() => {});
    onLost(error);
  };
  client.on("error", lost);
  client.on("end", () => lost(new Error("the notification connection ended")));
  client.on("notification", ({ channel, payload }) => {
    if (!over && channel === wanted && payload !== undefined) onPayload(payload);
  });
  // What is written at the new primary does not reach a session of the old one.
  const stopListening = demotions.listen(() => lost(new Error("the server has become read-only")));
  const session = sessionOf(client);
  try {
    await open();
    await checkWritable(session);
    await session.query(`LISTEN ${wanted}`);
    if (early) throw early;
    established = true;
    rest();
  } catch (error) {
    await stop().catch(() => {});
    throw error;
  }
  return {
    async check() {
      await session.query("SELECT 1");
    },
    stop,
  };
}

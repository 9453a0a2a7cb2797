/** A PostgreSQL server: by URL over pools of ours, or over a pool of the user's. */

import { InvalidOptionError, StoreMisconfiguredError } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import { type Backend, CHANNEL, type Subscription } from "./connection.js";
import type { PgClient, PgPool, PgPoolClient } from "./connection-drivers.js";
import { Prepared, poolSql, sessionOf } from "./connection-pool.js";

/** Acquires, reads, tasks. More connections would not make a database of few cores faster. */
const GENERAL_CONNECTIONS = 8;
/** Renewals, releases and heartbeats, two statements of each in flight: none waits for another kind. */
const CONTROL_CONNECTIONS = 6;
/**
 * So many of those are opened at once and kept, as many as renewals use: who meets none that is free
 * waits for a new one to open, whatever becomes free meanwhile, and on a machine that has too much to
 * do that takes longer than a lease lasts.
 */
const KEPT_CONNECTIONS = 2;
const CONNECT_TIMEOUT_MS = 5_000;

/**
 * @param url `postgres://user:password@host:port/database`; the parameters are those of pg, and
 *   `watch=poll` where connections are pooled per transaction
 */
export async function serverBackend(url: string, { clock, logger }: Env): Promise<Backend> {
  const pg = await import("pg").catch((error) => {
    throw new StoreMisconfiguredError("the package pg is missing: npm install pg", error);
  });
  const { Client, Pool } = pg.default;
  const { connectionString, name, poll } = parse(url);
  const config = {
    connectionString,
    fallback_application_name: "leasehold",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
  const openPool = (max: number, min: number) => {
    // Idle connections do not keep a process alive that has nothing else to do.
    const pool = new Pool({ ...config, max, min, allowExitOnIdle: true });
    // An idle connection was lost: the next caller gets another one.
    pool.on("error", (error) => logger.debug({ err: error }, "an idle connection was lost"));
    // One that is neither idle nor in use, but on its way out, would end the process with its error.
    pool.on("connect", (client) => client.on("error", () => {}));
    return pool;
  };
  const prepared = new Prepared();
  const general = openPool(GENERAL_CONNECTIONS, 0);
  const control = openPool(CONTROL_CONNECTIONS, KEPT_CONNECTIONS);
  const opening = openAhead(control, KEPT_CONNECTIONS);
  return {
    name,
    general: poolSql(general, clock, prepared),
    control: poolSql(control, clock, prepared),
    prepare: () => prepared.enable(),
    listen: poll
      ? null
      : (onPayload, onLost) => {
          const client = new Client(config);
          return subscribe(client, onPayload, onLost, {
            open: () => client.connect(),
            // A subscription alone does not keep the process alive either. (Types lack it.)
            rest: () => (client as unknown as { unref(): void }).unref(),
            // Not waited for: the other side may be gone, and waiting on a connection that does not
            // keep the process alive would end it in the middle.
            close: async () => void client.end().catch(() => {}),
          });
        },
    async close() {
      await opening;
      await Promise.all([general.end(), control.end()]);
    },
  };
}

/** Never rejects: who asks for one that could not be opened is told why. */
async function openAhead(pool: Pick<PgPool, "connect">, count: number): Promise<void> {
  // Of settings that make no sense the pool throws at once.
  const open = async () => pool.connect();
  const opened = await Promise.allSettled(Array.from({ length: count }, open));
  for (const one of opened) if (one.status === "fulfilled") one.value.release();
}

/** The pool stays the user's: it is never closed. One connection of it is kept for notifications. */
export function poolBackend(pool: PgPool, watch: "push" | "poll", { clock }: Env): Backend {
  const sql = poolSql(pool, clock);
  // The only connection of a pool cannot be kept for listening.
  const poll = watch === "poll" || pool.options?.max === 1;
  return {
    name: "PostgreSQL over the user's pool",
    general: sql,
    control: sql,
    listen: poll
      ? null
      : async (onPayload, onLost) => {
          const client: PgPoolClient = await pool.connect();
          return subscribe(client, onPayload, onLost, {
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
  onPayload: (payload: string) => void,
  onLost: (error: Error) => void,
  {
    open,
    rest,
    close,
  }: { open: () => Promise<unknown>; rest: () => void; close: () => Promise<void> },
): Promise<Subscription> {
  let established = false;
  let early: Error | undefined;
  let over = false;
  const stop = async () => {
    if (over) return;
    over = true;
    await close();
  };
  const lost = (error: Error) => {
    if (over) return;
    // A session that ends before it listens (a proxy accepts, and the server behind it is down) is
    // a failure to subscribe: it is told once, by the rejection below.
    if (!established) {
      early ??= error;
      return;
    }
    // Ends what is left of the session; that it fails is no news.
    void stop().catch(() => {});
    onLost(error);
  };
  client.on("error", lost);
  client.on("end", () => lost(new Error("the connection for notifications has ended")));
  client.on("notification", ({ channel, payload }) => {
    if (!over && channel === CHANNEL && payload !== undefined) onPayload(payload);
  });
  const session = sessionOf(client);
  try {
    await open();
    await session.query(`LISTEN ${CHANNEL}`);
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

function parse(text: string): { connectionString: string; name: string; poll: boolean } {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    // Without its cause, which quotes the URL with the password.
    throw new StoreMisconfiguredError(
      "the URL of the PostgreSQL server cannot be read: write postgres://user:password@host:port/database, what is special in the password as %XX",
    );
  }
  const watch = url.searchParams.get("watch");
  if (watch !== null && watch !== "poll") {
    throw new InvalidOptionError("watch", 'in the URL of a PostgreSQL server can only be "poll"');
  }
  url.searchParams.delete("watch");
  const name = `PostgreSQL at ${url.host}${url.pathname}`;
  return { connectionString: url.href, name, poll: watch === "poll" };
}

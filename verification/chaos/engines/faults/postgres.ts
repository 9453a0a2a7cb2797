/** What befalls a PostgreSQL server, and those who want something of it. */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { lockLease } from "../../../../tests/support/engines/locks.js";
import type { PostgresServer } from "../../../../tests/support/engines/postgres-engine.js";
import { missingClocks, setClock } from "../../../../tests/support/processes/fake-clock.js";
import { pick } from "../draws.js";
import type { Kind, Site } from "../site.js";
import { missingTmpfs, type SmallDisk } from "../small-disk.js";
import { engine, signalAll, whileSo } from "./engine.js";

const STEP_BACK_MS = 2_000;
/** Half a ttl: leases expire early, and their holders do not know. */
const STEP_AHEAD_TTLS = 0.5;
const RECOVERY_MS = 3_000;
/** The other client connections to this database. */
const OTHERS = `FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`;

/** What a fault needs of the server. */
export interface OpenedPostgres {
  readonly server: PostgresServer;
  /** Where its data are, or null where there can be no small disk. */
  readonly disk: SmallDisk | null;
  /** The file that says its clock, or null where there is none. */
  readonly clock: string | null;
}

/** A superuser's session of our own, for as long as `act` runs. */
export async function asAdmin<T>(url: string, act: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on("error", () => {});
  await client.connect();
  try {
    return await act(client);
  } finally {
    await client.end().catch(() => {});
  }
}

export function postgresKinds(opened: OpenedPostgres): Kind[] {
  const { server, disk, clock } = opened;
  let offsetMs = 0;
  const step = (ms: number) => {
    offsetMs += ms;
    if (clock !== null) setClock(clock, { offsetMs });
  };
  const start = () => server.start(clock === null ? undefined : { file: clock, wallOnly: true });
  const locked = async (site: Site, random: Parameters<Kind["happen"]>[1]) =>
    lockLease(server.url, { namespace: "default", resource: pick(random, site.resources) });
  return [
    whileSo("PostgreSQL killed and started", () => server.kill9(), start),
    whileSo(
      "PostgreSQL stopped and continued",
      () => signalAll(server.pid!, "SIGSTOP"),
      () => signalAll(server.pid!, "SIGCONT"),
    ),
    whileSo("PostgreSQL restarted", () => server.stop(), start, [0, 0]),
    engine("backends terminated in mid-transaction", async (site, random) => {
      // Transactions that need this row begin, then wait for the lock.
      const unlock = await locked(site, random);
      try {
        await asAdmin(server.url, async (admin) => {
          const waiting = `${OTHERS} AND wait_event_type = 'Lock'`;
          for (let tries = 0; tries < 20; tries += 1) {
            const { rows } = await admin.query(`SELECT ${waiting}`);
            if (rows.length > 0) break;
            await delay(site.ttlMs / 20);
          }
          await admin.query(`SELECT pg_terminate_backend(pid) ${waiting}`);
          await admin.query(`SELECT pg_terminate_backend(pid) ${OTHERS} AND random() < 0.3`);
        });
      } finally {
        await unlock();
      }
      return true;
    }),
    engine("row locked for longer than the ttl", async (site, random) => {
      const unlock = await locked(site, random);
      await delay(1.5 * site.ttlMs);
      await unlock();
      return true;
    }),
    engine("connections used up", async (site) => {
      const own: pg.Client[] = [];
      try {
        await useUp(server.url, own);
        // One of ours may have been cut off by what was wrong before.
        await own[0]
          ?.query(`SELECT pg_terminate_backend(pid) ${OTHERS} AND application_name <> 'chaos'`)
          .catch(() => {});
        await useUp(server.url, own);
        await delay(1.2 * site.ttlMs);
      } finally {
        await Promise.all(own.map((client) => client.end().catch(() => {})));
      }
      return true;
    }),
    engine(
      "disk full, and freed",
      async (site) => {
        await disk!.fill();
        try {
          await asAdmin(server.url, fillLog).catch(() => {});
          await delay(1.2 * site.ttlMs);
        } finally {
          await disk!.free();
          // A server that lacked room for its log panics later than it says so. A checkpoint writes what is left, so
          // a server that ends one does not take the next fault's sessions along.
          await delay(site.ttlMs / 4);
          const settled = asAdmin(server.url, (admin) => admin.query("CHECKPOINT")).then(
            () => true,
            () => false,
          );
          if (!(await Promise.race([settled, delay(RECOVERY_MS, false)]))) {
            await server.kill9();
            await start();
          }
        }
        return true;
      },
      missingTmpfs(),
    ),
    engine(
      "engine's wall clock steps back",
      async (site) => {
        step(-STEP_BACK_MS);
        // What was granted before lasts that much longer: no takeover is measured meanwhile.
        await delay(STEP_BACK_MS + site.ttlMs);
        return true;
      },
      missingClocks(),
    ),
    engine(
      "engine's wall clock steps ahead",
      (site) =>
        site.marked(null, site.ttlMs, async () => {
          step(STEP_AHEAD_TTLS * site.ttlMs);
          await delay(site.ttlMs);
          return true;
        }),
      missingClocks(),
    ),
  ];
}

/** Opens sessions until there are none left. */
async function useUp(url: string, own: pg.Client[]): Promise<void> {
  for (;;) {
    const client = new pg.Client({ connectionString: url, application_name: "chaos" });
    client.on("error", () => {});
    try {
      await client.connect();
    } catch {
      return;
    }
    own.push(client);
  }
}

/** Until there is no room for more of the log, and the server ends in panic. */
async function fillLog(admin: pg.Client): Promise<void> {
  for (;;)
    await admin.query("SELECT pg_logical_emit_message(false, 'chaos', repeat('x', 1000000))");
}

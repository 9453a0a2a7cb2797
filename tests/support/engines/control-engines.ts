/** The stores that keep what operators keep, as tests want them. */
import pg from "pg";
import { describe } from "vitest";
import type { Control } from "../../../packages/leasehold/src/control/index.js";
import { systemEnv } from "../../../packages/leasehold/src/env/index.js";
import { memory } from "../../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../../packages/leasehold/src/stores/postgres/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import { openPglite } from "./pglite.js";
import { describePostgres, freshDatabase } from "./postgres.js";

export interface OpenedControl extends Stores {
  readonly control: Control;
}

export interface OpenedSql extends OpenedControl {
  /** The same database over connections of its own, where there are any. */
  readonly other: OpenedControl;
  /** As a superuser, past all of our code. */
  query(text: string): Promise<Record<string, unknown>[]>;
}

interface Engine<Opened> {
  readonly name: string;
  describe(name: string, tests: () => void): void;
  open(): Promise<Opened>;
}

export const SQL_ENGINES: readonly Engine<OpenedSql>[] = [
  {
    name: "PGlite",
    describe,
    async open() {
      const db = await openPglite();
      const stores = await openPostgres({ db }, systemEnv);
      return {
        ...stores,
        other: stores,
        query: async (text) => (await db.query<Record<string, unknown>>(text)).rows,
        async close() {
          await stores.close();
          await db.close();
        },
      };
    },
  },
  {
    name: "PostgreSQL",
    describe: describePostgres,
    async open() {
      const database = await freshDatabase();
      const pool = new pg.Pool({ connectionString: database.url });
      // Tests here end sessions, also those that no query uses.
      pool.on("connect", (client) => client.on("error", () => {}));
      const [stores, other] = await Promise.all([
        openPostgres({ url: database.url }, systemEnv),
        openPostgres({ url: database.url }, systemEnv),
      ]);
      return {
        ...stores,
        other,
        query: async (text) => (await pool.query(text)).rows,
        async close() {
          await Promise.all([stores.close(), other.close(), pool.end()]);
          await database.drop();
        },
      };
    },
  },
];

export const CONTROL_ENGINES: readonly Engine<OpenedControl>[] = [
  {
    name: "memory",
    describe,
    async open() {
      const stores = await memory().open(systemEnv);
      if (!stores.control) throw new Error("memory keeps a control");
      return { ...stores, control: stores.control };
    },
  },
  ...SQL_ENGINES,
];

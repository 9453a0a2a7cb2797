/** docs/transactions.md as it stands: its code is compiled, and each adapter is used in transactions of the real library. */
import "reflect-metadata";
import { drizzle } from "drizzle-orm/node-postgres";
import knex from "knex";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { DataSource, EntitySchema } from "typeorm";
import { afterAll, beforeAll, describe, it } from "vitest";
import { exerciseAdapter, type Library } from "../support/documents/transactions/adapter-suite.js";
import { compileBlocks, type Page } from "../support/documents/transactions/page.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { checkBuild } from "../support/processes/cli.js";

/** Opens each library on a database of the test. */
const LIBRARIES: Readonly<Record<string, (url: string) => Promise<Library>>> = {
  async drizzle(url) {
    const pool = new pg.Pool({ connectionString: url });
    const db = drizzle({ client: pool });
    return { db, transaction: (work) => db.transaction(work), close: () => pool.end() };
  },
  async kysely(url) {
    const pool = new pg.Pool({ connectionString: url });
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
    const transaction: Library["transaction"] = (work) => db.transaction().execute(work);
    return { db, transaction, close: () => db.destroy() };
  },
  async knex(url) {
    const db = knex({ client: "pg", connection: url });
    return { db, transaction: (work) => db.transaction(work), close: () => db.destroy() };
  },
  async typeorm(url) {
    const orders = new EntitySchema({
      name: "orders",
      columns: {
        id: { type: Number, primary: true, generated: true },
        customer: { type: String },
      },
    });
    const db = await new DataSource({ type: "postgres", url, entities: [orders] }).initialize();
    return {
      db,
      transaction: (work) => db.transaction(work),
      outside: db.manager,
      close: () => db.destroy(),
    };
  },
};

describePostgres("docs/transactions.md", () => {
  let database: FreshDatabase;
  let page: Page;
  beforeAll(async () => {
    checkBuild();
    database = await freshDatabase();
    page = await compileBlocks(database.url, ["tasks", ...Object.keys(LIBRARIES)]);
  });
  afterAll(async () => {
    await page?.close();
    await database?.drop();
  });

  describe.each(Object.entries(LIBRARIES))("%s", (name, open) => {
    exerciseAdapter(it, async () => ({
      url: database.url,
      opened: await open(database.url),
      page,
      adapter: await page.adapter(name),
    }));
  });
});

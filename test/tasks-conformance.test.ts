/** Every task store against the suite that holds all of them to the same rules. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../src/env/index.js";
import { memory } from "../src/stores/memory/index.js";
import { openPostgres } from "../src/stores/postgres/index.js";
import type { TaskKey } from "../src/tasks/port.js";
import { exerciseTaskStore, manualEnv } from "../src/testing/index.js";
import { describePostgres, freshDatabase } from "./support/postgres.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

exerciseTaskStore({
  name: "memory",
  vitest,
  async open() {
    const env = manualEnv({ seed: 12 });
    const stores = await memory().open(env);
    return {
      store: stores.tasks,
      generator: stores.generator,
      advance: (ms) => env.clock.advance(ms),
      close: () => stores.close(),
    };
  },
});

exerciseTaskStore({
  name: "memory in real time",
  vitest,
  async open() {
    const stores = await memory().open(systemEnv);
    return { store: stores.tasks, generator: stores.generator, close: () => stores.close() };
  },
});

exerciseTaskStore({
  name: "PGlite",
  vitest,
  async open() {
    const directory = await mkdtemp(join(tmpdir(), "leasehold-pglite-"));
    const database = await openPostgres({ directory }, systemEnv);
    return {
      store: database.tasks,
      generator: database.generator,
      async close() {
        await database.close();
        await rm(directory, { recursive: true });
      },
    };
  },
});

exerciseTaskStore({
  name: "PostgreSQL",
  vitest: { ...vitest, describe: describePostgres },
  async open() {
    const { url, drop } = await freshDatabase();
    const database = await openPostgres({ url }, systemEnv);
    return {
      store: database.tasks,
      generator: database.generator,
      lockRow: (task) => lockRow(url, task),
      async close() {
        await database.close();
        await drop();
      },
    };
  },
});

async function lockRow(url: string, { namespace, id }: TaskKey): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  await client.query("BEGIN");
  const text = "SELECT FROM leasehold.task WHERE namespace = $1 AND id = $2 FOR UPDATE";
  const { rowCount } = await client.query(text, [namespace, id]);
  if (rowCount !== 1) throw new Error("there is no such row to lock");
  return () => client.end();
}

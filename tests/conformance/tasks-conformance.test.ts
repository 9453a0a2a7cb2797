/** Every task store against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { exerciseTaskStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { lockTask } from "../support/locks.js";
import { freshPglite } from "../support/pglite.js";
import { describePostgres, freshDatabase } from "../support/postgres.js";
import { runsIn } from "../support/suite-tier.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

if (runsIn("contract")) {
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
}

if (runsIn("contract")) {
  exerciseTaskStore({
    name: "PGlite",
    vitest,
    async open() {
      const { directory, remove } = await freshPglite();
      const database = await openPostgres({ directory }, systemEnv);
      return {
        store: database.tasks,
        generator: database.generator,
        async close() {
          await database.close();
          await remove();
        },
      };
    },
  });
}

if (runsIn("engines")) {
  exerciseTaskStore({
    name: "PostgreSQL",
    vitest: { ...vitest, describe: describePostgres },
    async open() {
      const { url, drop } = await freshDatabase();
      const database = await openPostgres({ url }, systemEnv);
      return {
        store: database.tasks,
        generator: database.generator,
        lockRow: (task) => lockTask(url, task),
        async close() {
          await database.close();
          await drop();
        },
      };
    },
  });
}

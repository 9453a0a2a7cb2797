/** Every store that keeps the records of `once` against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { exerciseOnceStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { onlyTests } from "../support/chosen-tests.js";
import { openHttpHarness, openTwice } from "../support/http-harness.js";
import { freshPglite } from "../support/pglite.js";
import { describePostgres, freshDatabase } from "../support/postgres.js";
import { runsIn } from "../support/suite-tier.js";
import { ONCE_OF_SEVERAL_SERVERS, ONCE_WIRE } from "../support/wire-tests.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

if (runsIn("contract")) {
  exerciseOnceStore({
    name: "memory",
    vitest,
    async open() {
      const env = manualEnv({ seed: 31 });
      const { once, close } = await memory().open(env);
      if (!once) throw new Error("memory keeps the records of once");
      return { store: once, advance: (ms) => env.clock.advance(ms), close };
    },
  });
}

if (runsIn("engines")) {
  exerciseOnceStore({
    name: "PGlite",
    vitest,
    async open() {
      const { directory, remove } = await freshPglite();
      const database = await openPostgres({ directory }, systemEnv);
      return {
        store: database.once,
        async close() {
          await database.close();
          await remove();
        },
      };
    },
  });
}

if (runsIn("engines")) {
  exerciseOnceStore({
    name: "PostgreSQL",
    vitest: { ...vitest, describe: describePostgres },
    async open() {
      const { url, drop } = await freshDatabase();
      const database = await openPostgres({ url }, systemEnv);
      return {
        store: database.once,
        async close() {
          await database.close();
          await drop();
        },
      };
    },
  });
}

if (runsIn("engines")) {
  exerciseOnceStore({
    name: "http over memory",
    vitest: onlyTests(vitest, ONCE_WIRE),
    async open() {
      const env = manualEnv({ seed: 32 });
      const { once, close } = await openHttpHarness([await memory().open(env)]);
      if (!once) throw new Error("memory keeps the records of once");
      return { store: once, advance: (ms) => env.clock.advance(ms), close };
    },
  });
}

if (runsIn("engines")) {
  exerciseOnceStore({
    name: "http over PostgreSQL",
    vitest: onlyTests({ ...vitest, describe: describePostgres }, ONCE_OF_SEVERAL_SERVERS),
    async open() {
      const { url, drop } = await freshDatabase();
      const { once, close } = await openHttpHarness(await openTwice(url));
      if (!once) throw new Error("PostgreSQL keeps the records of once");
      return {
        store: once,
        async close() {
          await close();
          await drop();
        },
      };
    },
  });
}

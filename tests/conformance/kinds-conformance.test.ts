/** Every store that keeps published kinds against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { Stores } from "../../packages/leasehold/src/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { exerciseKindStore } from "../../packages/leasehold/src/testing/index.js";
import { onlyTests } from "../support/chosen-tests.js";
import { openHttpHarness, openTwice } from "../support/http-harness.js";
import { freshPglite } from "../support/pglite.js";
import { describePostgres, freshDatabase } from "../support/postgres.js";
import { runsIn } from "../support/suite-tier.js";
import { KIND_WIRE, KINDS_OF_SEVERAL_SERVERS } from "../support/wire-tests.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

function opened({ kinds: store }: Pick<Stores, "kinds">, close: () => Promise<void>) {
  if (!store) throw new Error("it keeps kinds");
  return { store, close };
}

if (runsIn("contract")) {
  exerciseKindStore({
    name: "memory",
    vitest,
    async open() {
      const stores = await memory().open(systemEnv);
      return opened(stores, () => stores.close());
    },
  });
}

if (runsIn("engines")) {
  exerciseKindStore({
    name: "PGlite",
    vitest,
    async open() {
      const { directory, remove } = await freshPglite();
      const database = await openPostgres({ directory }, systemEnv);
      return opened(database, async () => {
        await database.close();
        await remove();
      });
    },
  });
}

if (runsIn("engines")) {
  exerciseKindStore({
    name: "PostgreSQL",
    vitest: { ...vitest, describe: describePostgres },
    async open() {
      const { url, drop } = await freshDatabase();
      const database = await openPostgres({ url }, systemEnv);
      return opened(database, async () => {
        await database.close();
        await drop();
      });
    },
  });
}

if (runsIn("engines")) {
  exerciseKindStore({
    name: "http over memory",
    vitest: onlyTests(vitest, KIND_WIRE),
    async open() {
      const stores = await openHttpHarness([await memory().open(systemEnv)]);
      return opened(stores, () => stores.close());
    },
  });
}

if (runsIn("engines")) {
  exerciseKindStore({
    name: "http over PostgreSQL",
    vitest: onlyTests({ ...vitest, describe: describePostgres }, KINDS_OF_SEVERAL_SERVERS),
    async open() {
      const { url, drop } = await freshDatabase();
      const stores = await openHttpHarness(await openTwice(url));
      return opened(stores, async () => {
        await stores.close();
        await drop();
      });
    },
  });
}

/** PostgreSQL and PGlite as the conformance suites want them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import type { LeaseHarness } from "../../packages/leasehold/src/testing/index.js";
import { lockLease } from "./locks.js";
import { freshPglite } from "./pglite.js";
import { describePostgres, startPostgres } from "./postgres.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

export const pgliteHarness: LeaseHarness = {
  name: "PGlite",
  vitest,
  async open() {
    const { directory, remove } = await freshPglite();
    let database = await openPostgres({ directory }, systemEnv);
    return {
      store: database.leases,
      async restart() {
        await database.close();
        database = await openPostgres({ directory }, systemEnv);
        return database.leases;
      },
      async close() {
        await database.close();
        await remove();
      },
    };
  },
};

export const postgresHarness: LeaseHarness = {
  name: "PostgreSQL",
  vitest: { ...vitest, describe: describePostgres },
  async open() {
    // A server of its own, because the suite restarts it.
    const server = await startPostgres();
    let database = await openPostgres({ url: server.url }, systemEnv);
    return {
      store: database.leases,
      async restart() {
        const before: PostgresDatabase = database;
        await server.kill9();
        await server.start();
        database = await openPostgres({ url: server.url }, systemEnv);
        await before.close();
        return database.leases;
      },
      lockRow: (key) => lockLease(server.url, key),
      async close() {
        await database.close();
        await server.remove();
      },
    };
  },
};

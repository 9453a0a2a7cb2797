/** Every store that keeps schedules against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { Stores } from "../../packages/leasehold/src/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { exerciseScheduleStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { freshPglite } from "../support/pglite.js";
import { describePostgres, freshDatabase } from "../support/postgres.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

/** @param behind where the ticks are, if not in the store itself */
function opened(
  { schedules: store, tasks }: Pick<Stores, "schedules" | "tasks">,
  close: () => Promise<void>,
  behind: Pick<Stores, "schedules"> = { ...(store && { schedules: store }) },
) {
  const ticking = behind.schedules?.ticking;
  if (!store || !ticking) throw new Error("it keeps schedules");
  return { store, tasks, ticking, close };
}

exerciseScheduleStore({
  name: "memory",
  vitest,
  async open() {
    const env = manualEnv({ seed: 41 });
    const stores = await memory().open(env);
    return {
      ...opened(stores, () => stores.close()),
      advance: (ms) => env.clock.advance(ms),
    };
  },
});

exerciseScheduleStore({
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

exerciseScheduleStore({
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

/** Every store that keeps schedules against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { Stores } from "../../packages/leasehold/src/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { exerciseScheduleStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { onlyTests } from "../support/chosen-tests.js";
import { openHttpHarness, openTwice } from "../support/http-harness.js";
import { freshPglite } from "../support/pglite.js";
import { describePostgres, freshDatabase } from "../support/postgres.js";
import { runsIn } from "../support/suite-tier.js";
import { SCHEDULE_WIRE, SCHEDULES_OF_SEVERAL_SERVERS } from "../support/wire-tests.js";

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

/** For a server that does not tick, so that the suite alone does. */
function withoutTicks<Opened extends Pick<Stores, "schedules">>(stores: Opened): Opened {
  const { schedules } = stores;
  const still = new Proxy(schedules as NonNullable<typeof schedules>, {
    get(target, name) {
      if (name === "ticking") return undefined;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { ...stores, schedules: still };
}

if (runsIn("contract")) {
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
}

if (runsIn("engines")) {
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
}

if (runsIn("engines")) {
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
}

if (runsIn("engines")) {
  exerciseScheduleStore({
    name: "http over memory",
    vitest: onlyTests(vitest, SCHEDULE_WIRE),
    async open() {
      const env = manualEnv({ seed: 42 });
      const behind = await memory().open(env);
      const stores = await openHttpHarness([withoutTicks(behind)]);
      return {
        ...opened(stores, () => stores.close(), behind),
        advance: (ms) => env.clock.advance(ms),
      };
    },
  });
}

if (runsIn("engines")) {
  exerciseScheduleStore({
    name: "http over PostgreSQL",
    vitest: onlyTests({ ...vitest, describe: describePostgres }, SCHEDULES_OF_SEVERAL_SERVERS),
    async open() {
      const { url, drop } = await freshDatabase();
      const databases = await openTwice(url);
      const stores = await openHttpHarness(databases.map(withoutTicks));
      const close = async () => {
        await stores.close();
        await drop();
      };
      return opened(stores, close, databases[0]);
    },
  });
}

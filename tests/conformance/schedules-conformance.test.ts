/** Every store that keeps schedules against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { exerciseScheduleStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import {
  HTTP_OVER_MEMORY,
  HTTP_OVER_POSTGRES,
  PGLITE,
  POSTGRES,
  schedulesOn,
} from "../support/suites/suite-engines.js";
import { runsIn } from "../support/suites/suite-tier.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

if (runsIn("contract")) {
  exerciseScheduleStore({
    name: "memory",
    vitest,
    async open() {
      const env = manualEnv({ seed: 41 });
      const { schedules: store, tasks, close } = await memory().open(env);
      if (!store?.ticking) throw new Error("memory keeps schedules");
      const { ticking } = store;
      return { store, tasks, ticking, advance: (ms) => env.clock.advance(ms), close };
    },
  });
}

for (const engine of [PGLITE, POSTGRES, HTTP_OVER_MEMORY, HTTP_OVER_POSTGRES]) {
  exerciseScheduleStore(schedulesOn(engine));
}

/** Every task store against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { exerciseTaskStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { PGLITE, POSTGRES, tasksOn } from "../support/suites/suite-engines.js";
import { runsIn } from "../support/suites/suite-tier.js";

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
        advance: (ms) => env.clock.advance(ms),
        close: () => stores.close(),
      };
    },
  });
}

for (const engine of [PGLITE, POSTGRES]) {
  exerciseTaskStore(tasksOn(engine));
}

/** Every store that keeps the records of `once` against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { exerciseOnceStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import {
  HTTP_OVER_MEMORY,
  HTTP_OVER_POSTGRES,
  onceOn,
  PGLITE,
  POSTGRES,
} from "../support/suites/suite-engines.js";
import { runsIn } from "../support/suites/suite-tier.js";

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

for (const engine of [PGLITE, POSTGRES, HTTP_OVER_MEMORY, HTTP_OVER_POSTGRES]) {
  exerciseOnceStore(onceOn(engine));
}

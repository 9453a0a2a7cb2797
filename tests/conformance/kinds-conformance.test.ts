/** Every store that keeps published kinds against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { exerciseKindStore, manualEnv } from "../../packages/leasehold/src/testing/index.js";
import {
  HTTP_OVER_MEMORY,
  HTTP_OVER_POSTGRES,
  kindsOn,
  PGLITE,
  POSTGRES,
} from "../support/suites/suite-engines.js";
import { runsIn } from "../support/suites/suite-tier.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

if (runsIn("contract")) {
  exerciseKindStore({
    name: "memory",
    vitest,
    async open() {
      const { kinds: store, close } = await memory().open(manualEnv({ seed: 51 }));
      if (!store) throw new Error("memory keeps kinds");
      return { store, close };
    },
  });
}

for (const engine of [PGLITE, POSTGRES, HTTP_OVER_MEMORY, HTTP_OVER_POSTGRES]) {
  exerciseKindStore(kindsOn(engine));
}

/** The wanted state of the generator in each store that keeps tasks, and behind servers. */
import { afterAll, beforeAll, describe } from "vitest";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { exerciseGeneratorState } from "../support/suites/generator-suite.js";
import {
  HTTP_OVER_MEMORY,
  HTTP_OVER_POSTGRES,
  type OpenedEngine,
  PGLITE,
  POSTGRES,
} from "../support/suites/suite-engines.js";
import { runsIn } from "../support/suites/suite-tier.js";

if (runsIn("contract")) {
  describe("memory", () => {
    const source = memory();
    exerciseGeneratorState(() => Promise.all([source.open(manualEnv()), source.open(manualEnv())]));
  });
}

for (const engine of [PGLITE, POSTGRES, HTTP_OVER_MEMORY, HTTP_OVER_POSTGRES]) {
  if (!runsIn(engine.contract ? "contract" : "engines")) continue;
  engine.describe(engine.name, () => {
    let opened: OpenedEngine;
    beforeAll(async () => {
      opened = await engine.open();
    });
    afterAll(() => opened.close());
    exerciseGeneratorState(async () => [
      opened.stores,
      (await opened.openOther?.()) ?? opened.stores,
    ]);
  });
}

/** Every store against the suites that hold all of them to the same rules. */
import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../src/env/index.js";
import { memory } from "../src/stores/memory/index.js";
import { exerciseLeaseStore, type LeaseHarness, manualEnv } from "../src/testing/index.js";
import { httpHarnesses } from "./support/http-harness.js";
import { postgresHarnesses } from "./support/postgres-harness.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

/** By folder of src/stores/. */
const ENGINES: Readonly<Record<string, readonly LeaseHarness[]>> = {
  memory: [
    {
      name: "memory",
      vitest,
      async open() {
        const env = manualEnv({ seed: 11 });
        const source = memory();
        let stores = await source.open(env);
        return {
          store: stores.leases,
          advance: (ms) => env.clock.advance(ms),
          async restart() {
            await stores.close();
            stores = await source.open(env);
            return stores.leases;
          },
          close: () => stores.close(),
        };
      },
    },
    {
      name: "memory in real time",
      vitest,
      async open() {
        const stores = await memory({ name: "conformance" }).open(systemEnv);
        return { store: stores.leases, close: () => stores.close() };
      },
    },
  ],
  postgres: postgresHarnesses,
  http: httpHarnesses,
};

it("every store is run by the suites", () => {
  const stores = new URL("../src/stores/", import.meta.url);
  const engines = readdirSync(stores, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .filter((name) => readdirSync(new URL(`${name}/`, stores)).length > 0);
  expect(Object.keys(ENGINES).sort()).toEqual(engines.sort());
});

for (const harness of Object.values(ENGINES).flat()) {
  exerciseLeaseStore(harness);
}

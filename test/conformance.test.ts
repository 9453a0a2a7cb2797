/** Every store against the suites that hold all of them to the same rules. */
import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../src/env/index.js";
import { memory } from "../src/stores/memory/index.js";
import { exerciseLeaseStore, type LeaseHarness, manualEnv } from "../src/testing/index.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

/** By folder of src/stores/. */
const ENGINES: Readonly<Record<string, readonly Omit<LeaseHarness, "vitest">[]>> = {
  memory: [
    {
      name: "memory",
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
      async open() {
        const stores = await memory({ name: "conformance" }).open(systemEnv);
        return { store: stores.leases, close: () => stores.close() };
      },
    },
  ],
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
  exerciseLeaseStore({ ...harness, vitest });
}

import { exerciseLeaseStore } from "../src/testing/index.js";
import { postgresHarnesses } from "./support/postgres-harness.js";
for (const harness of postgresHarnesses) exerciseLeaseStore(harness);

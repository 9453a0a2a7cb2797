/** PostgreSQL, by a server and in process, against the suite that holds every lease store to the same rules. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { postgresHarnesses } from "../support/postgres-harness.js";

for (const harness of postgresHarnesses) exerciseLeaseStore(harness);

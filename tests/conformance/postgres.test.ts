/** PostgreSQL, by a server and in process, against the suite that holds every lease store to the same rules. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { pgliteHarness, postgresHarness } from "../support/postgres-harness.js";
import { runsIn } from "../support/suite-tier.js";

if (runsIn("contract")) exerciseLeaseStore(pgliteHarness);
if (runsIn("engines")) exerciseLeaseStore(postgresHarness);

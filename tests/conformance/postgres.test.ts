/** PostgreSQL, by a server and in process, against the suite that holds every lease store to the same rules. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { leasesOn, PGLITE, POSTGRES_SERVER } from "../support/suites/suite-engines.js";

exerciseLeaseStore(leasesOn(PGLITE));
exerciseLeaseStore(leasesOn(POSTGRES_SERVER));

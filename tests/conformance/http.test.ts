/** The HTTP client, over several stores, against the suite that holds every lease store to the same rules. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { httpHarnesses } from "../support/http-harness.js";

for (const harness of httpHarnesses) exerciseLeaseStore(harness);

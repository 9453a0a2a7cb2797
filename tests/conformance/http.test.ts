/** Client, HTTP and server together, over several stores, against what the suite of lease stores says of them. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { httpHarnesses } from "../support/http-harness.js";

for (const harness of httpHarnesses) exerciseLeaseStore(harness);

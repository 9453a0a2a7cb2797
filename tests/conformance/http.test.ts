/** Client, HTTP and server together, over several stores, against what the suite of lease stores says of them. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { HTTP_OVER_MEMORY, HTTP_OVER_POSTGRES, leasesOn } from "../support/suites/suite-engines.js";

exerciseLeaseStore(leasesOn(HTTP_OVER_MEMORY));
exerciseLeaseStore(leasesOn(HTTP_OVER_POSTGRES));

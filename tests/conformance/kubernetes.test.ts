/** Kubernetes' Lease objects against the suite that holds every lease store to the same rules. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { KUBERNETES, leasesOn } from "../support/suites/suite-engines.js";

exerciseLeaseStore(leasesOn(KUBERNETES));

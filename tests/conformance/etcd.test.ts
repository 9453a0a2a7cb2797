/** etcd against the suite that holds every lease store to the same rules. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { ETCD, leasesOn } from "../support/suites/suite-engines.js";

exerciseLeaseStore(leasesOn(ETCD));

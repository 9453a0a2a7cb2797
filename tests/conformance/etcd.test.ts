/** etcd against the suite that holds every lease store to the same rules. */
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { ETCD, ETCD_GATEWAY, leasesOn } from "../support/suites/suite-engines.js";

exerciseLeaseStore(leasesOn(ETCD));
exerciseLeaseStore(leasesOn(ETCD_GATEWAY));

/** What requests of tests name: a task, a grant on it, and a lease of the resource "r". */
import { systemClock, systemRandom, taskIds } from "../../../packages/leasehold/src/env/index.js";
import { toWireGrantId, toWireLeaseId } from "../../../packages/leasehold/src/wire/index.js";

export const ID = taskIds(systemClock, systemRandom)();
export const GRANT = { leaseId: "0".repeat(48), fencingToken: 1 };
export const LEASE_ID = toWireLeaseId("r", "0".repeat(48));
export const GRANT_ID = toWireGrantId("r", "0".repeat(16));

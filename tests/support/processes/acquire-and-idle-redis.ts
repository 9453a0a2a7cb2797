import { newLeaseId, systemEnv } from "../../../packages/leasehold/src/env/index.js";
import { redis } from "../../../packages/leasehold/src/stores/redis/index.js";

// Opens the store, acquires once, and has nothing more to do; it does not close anything.
const { leases } = await redis({ url: process.argv[2] ?? "" }).open(systemEnv);
const leaseId = newLeaseId(systemEnv.random);
const request = { namespace: "n", resource: "idle", leaseId, holder: "h", ttlMs: 60_000 };
const [outcome] = await leases.acquire([request]);
console.log(outcome?.status);

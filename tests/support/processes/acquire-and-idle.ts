import { newLeaseId, systemEnv } from "../../../packages/leasehold/src/env/index.js";
import { openPostgres } from "../../../packages/leasehold/src/stores/postgres/index.js";

// Opens the database, acquires once, and has nothing more to do; it does not close anything.
const { leases } = await openPostgres({ url: process.argv[2] ?? "" }, systemEnv);
const leaseId = newLeaseId(systemEnv.random);
const request = { namespace: "n", resource: "r", leaseId, holder: "h", ttlMs: 60_000 };
const [outcome] = await leases.acquire([request]);
console.log(outcome?.status);

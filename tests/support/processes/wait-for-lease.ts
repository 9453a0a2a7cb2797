import { connect } from "../../../packages/leasehold/src/index.js";

// Waits for a lease until the process is killed. It prints a line if it gets the lease.
const [url = "", resource = ""] = process.argv.slice(2);
const leases = await connect(url, { graceMs: 0 });
await leases.acquire(resource, { waitMs: Infinity });
console.log("acquired");

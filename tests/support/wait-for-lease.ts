import { connect } from "../../packages/leasehold/src/index.js";

// Waits for a lease until somebody ends it; says so if it gets one.
const [url = "", resource = ""] = process.argv.slice(2);
const leases = await connect(url, { graceMs: 0 });
await leases.acquire(resource, { waitMs: Infinity });
console.log("acquired");

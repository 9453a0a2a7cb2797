import { once } from "node:events";
import { connect } from "../../../packages/leasehold/src/index.js";

// Connects, acquires and releases a lease, and after a line of input has nothing more to do. It closes
// nothing.
const leases = await connect(process.argv[2] ?? "");
await leases.run("idle", async () => {});
console.log("ready");
await once(process.stdin, "data");
process.stdin.destroy();

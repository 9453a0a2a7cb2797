import { once } from "node:events";
import { connect } from "../../packages/leasehold/src/index.js";

// Connects, takes and gives back a lease, and after a line of input has nothing more to do; it does
// not close anything.
const leases = await connect(process.argv[2] ?? "");
await leases.run("idle", async () => {});
console.log("ready");
await once(process.stdin, "data");
process.stdin.destroy();

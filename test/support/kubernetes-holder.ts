/** Holds a lease of a store by URL until its input ends; at each line it says whether it may go on. */
import { createInterface } from "node:readline";
import { connect } from "../../src/index.js";

process.on("disconnect", () => process.exit());
const [, , url = "", resource = "", ttlMs] = process.argv;
const leases = await connect(url, { graceMs: 0 });
const lease = await leases.acquire(resource, { ttlMs: Number(ttlMs) });
console.log(JSON.stringify({ token: lease.token }));
createInterface(process.stdin).on("line", () => {
  console.log(JSON.stringify({ alive: lease.checkAlive() }));
});

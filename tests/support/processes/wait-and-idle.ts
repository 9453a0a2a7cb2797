import { connect } from "../../../packages/leasehold/src/browser.js";
import { sleep, systemClock } from "../../../packages/leasehold/src/env/index.js";

// Waits for a lease behind a server, by its events, and has nothing more to do; it does not close
// anything.
const url = process.argv[2] ?? "";
const [holder, waiter] = [await connect(url), await connect(url)];
const held = await holder.acquire("resource");
const waiting = waiter.acquire("resource");
await sleep(systemClock, 500);
await held.release();
const lease = await waiting;
await lease.release();
console.log("released");

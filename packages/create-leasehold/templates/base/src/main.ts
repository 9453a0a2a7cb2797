/** The program. Ctrl-C or SIGTERM stops it after the current work has finished. */
import { connect } from "leasehold";
import { email, generateReport, start } from "./jobs.js";
import { url } from "./store.js";

const leasehold = await connect(url, { closeOnSignals: true });
await start(leasehold);

// If no process ran last night, this generates the report now.
const today = new Date().toISOString().slice(0, 10);
console.log(await generateReport(leasehold, today));

const handle = await leasehold.tasks.enqueue(email, { to: "ada@example.com" });
console.log("the worker returned", await handle.result());
console.log("running until you press Ctrl-C: the next report is due at 02:00 UTC");

/** The program. Ctrl-C or SIGTERM ends it when the work under way is done. */
import { connect } from "leasehold";
import { mail, makeReport, start } from "./jobs.js";
import { url } from "./store.js";

const leasehold = await connect(url, { closeOnSignals: true });
await start(leasehold);

// Makes up for a night in which no process ran.
const today = new Date().toISOString().slice(0, 10);
console.log(await makeReport(leasehold, today));

const handle = await leasehold.tasks.enqueue(mail, { to: "ada@example.com" });
console.log("the worker returned", await handle.result());
console.log("waiting for the night and for tasks; Ctrl-C ends it");

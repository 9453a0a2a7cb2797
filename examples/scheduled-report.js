/**
 * A report at given times: three processes could make it, and one does each time.
 *
 *   node examples/scheduled-report.js [URL]
 *
 * URL says where the tasks and their schedules are kept (postgres://...); without one, PGlite in this process, which the
 * three share.
 *
 * You will see each fire time once, whichever process reports; the reports go on when a process ends; none while an
 * operator has paused the schedule, even though a deployment declares it again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, defineTask } from "leasehold";
import { openSource } from "./support/source.js";

const { source, close } = await openSource(process.argv[2]);
const name = `example-report/${Date.now()}`;
const report = defineTask(name);
/** @type {string[]} */
const made = [];

/** @param {string} holder */
async function deploy(holder) {
  const leasehold = await connect(source, { holder });
  const handler = report.handle((_data, { task }) => {
    // The id of a scheduled task is the name of the schedule and the fire time.
    const at = task.id.slice(name.length + 1);
    made.push(at);
    console.log(`${holder} reports at ${at}`);
  });
  leasehold.tasks.work([handler]);
  // Each process declares it at its start: nothing changes if it is the same.
  await leasehold.tasks.schedule(name, { everyMs: 1_000, kind: report, data: null });
  return leasehold;
}

const [first, second, third] = await Promise.all(["web-1", "web-2", "web-3"].map(deploy));
if (!first || !second || !third) throw new Error("three are deployed");
while (made.length < 3) await sleep(50);
await first.close();
console.log("web-1 has ended");
const before = made.length;
while (made.length < before + 2) await sleep(50);
console.log(`${made.length} reports, ${new Set(made).size} times`);

await second.tasks.schedules.pause(name, { reason: "the warehouse moves" });
const again = await deploy("web-4");
const schedule = await again.tasks.schedules.get(name);
console.log(`declared again by web-4: paused, ${schedule?.paused?.reason}`);
const taskId = await again.tasks.schedules.runNow(name);
await again.tasks.result(taskId ?? "");
console.log("run by hand all the same");
await again.tasks.schedules.remove(name);

await Promise.all([second, third, again].map((client) => client.close()));
await close();

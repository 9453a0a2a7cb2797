/**
 * Limits of time of tasks: a handler that hangs, "again later", and a task for which no worker has time.
 *
 *   node examples/limits-of-time.js [URL]
 *
 * URL says where the tasks are kept: http://127.0.0.1:4040 while `npm start` runs, postgres://...;
 * without one, PGlite in this process.
 *
 * You will see a call that hangs end after its 300 ms, though its handler ignores the signal; a bank that is closed twice, and
 * then open, without a failure; and an alert that is of no use any more, because its worker starts too late.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, defineTask, RetryLater, TaskFailedError } from "leasehold";

const call = defineTask("partner.call", { maxRunMs: 300, maxAttempts: 1 });
const transfer = defineTask("bank.transfer");
const alert = defineTask("alert.send", { queue: "alerts", startByMs: 200 });

const handlers = [
  call.handle(() => new Promise(() => {})),
  transfer.handle((_, { task }) => {
    if (task.postponed < 2) {
      throw new RetryLater({ inMs: 100, reason: "the bank is closed", mostTimes: 10 });
    }
    return `transferred at attempt ${task.attempt}, with ${task.failures} failures`;
  }),
];

const leasehold = await connect(process.argv[2] ?? "pglite:");
const { tasks } = leasehold;
try {
  const hung = await tasks.enqueue(call, null);
  const transferred = await tasks.enqueue(transfer, null);
  const alerted = await tasks.enqueue(alert, null);
  tasks.work(handlers, { concurrency: 2, graceMs: 100 });
  console.log(await transferred.result({ timeoutMs: 30_000 }));
  await hung.result({ timeoutMs: 30_000 }).catch((error) => {
    if (!(error instanceof TaskFailedError)) throw error;
    console.log(error.state, "because", error.error);
  });
  await sleep(500);
  tasks.work([alert.handle(() => console.log("never called"))], { queues: ["alerts"] });
  await alerted.result({ timeoutMs: 30_000 }).catch((error) => {
    if (!(error instanceof TaskFailedError)) throw error;
    console.log(error.state);
  });
} finally {
  await leasehold.close();
}

// A worker whose only handler hangs, in a process that has nothing else to do. Prints that it is stuck, and that it is still there.
import { connect, defineTask } from "leasehold";

const { tasks } = await connect("memory:", { logger: console });
const hang = defineTask("hang", { maxRunMs: 100, maxAttempts: 1 });
const worker = tasks.work([hang.handle(() => new Promise(() => {}))], {
  concurrency: 1,
  graceMs: 100,
  maxAbandoned: 0,
});
await tasks.enqueue(hang, null);
worker.done.catch(({ code }) => {
  console.log(code);
  // It keeps no process alive by itself.
  setTimeout(() => console.log("still there"), 2_500).unref();
});

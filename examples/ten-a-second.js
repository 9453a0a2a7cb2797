/**
 * A provider allows ten calls in a second and three at a time: two workers with many places each keep to both.
 *
 *   node examples/ten-a-second.js [URL]
 *
 * URL says where the tasks are kept: http://127.0.0.1:4040 while `npm start` runs, postgres://...; without one, PGlite in
 * this process.
 *
 * You will see three calls at a time, ten of them in each second, and the limit as the store shows it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, defineTask } from "leasehold";

const call = defineTask("provider.call", {
  limit: { running: 3, rate: { limit: 10, perMs: 1_000 } },
  queue: "provider",
});

let running = 0;
let most = 0;
const handler = call.handle(async (_data, { signal }) => {
  running += 1;
  most = Math.max(most, running);
  await sleep(20, undefined, { signal });
  running -= 1;
});

const leasehold = await connect(process.argv[2] ?? "pglite:");
try {
  const { tasks } = leasehold;
  const calls = Array.from({ length: 25 }, (_, number) => ({ data: { number } }));
  const handles = await tasks.enqueueAll(call, calls);
  const begin = performance.now();
  for (let worker = 0; worker < 2; worker += 1) {
    tasks.work([handler], { queues: ["provider"], concurrency: 10 });
  }
  await Promise.all(handles.map((handle) => handle.result()));
  const seconds = (performance.now() - begin) / 1_000;
  console.log(`25 calls in ${seconds.toFixed(1)} s, at most ${most} at a time`);
  for (const { scope, name, running: limit, rate } of await tasks.limits.list()) {
    console.log(`the ${scope} ${name}: ${limit} at a time, ${rate?.limit} in ${rate?.perMs} ms`);
  }
} finally {
  await leasehold.close();
}

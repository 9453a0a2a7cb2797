/**
 * A kind of task in two versions, while the old program and the new one run side by side.
 *
 *   node examples/two-versions.js
 *
 * You will see that the old worker leaves the new tasks alone, and that the new one upgrades the old tasks.
 */
import { connect, defineTask } from "leasehold";
import { z } from "zod";

// What the program of last week had.
const first = defineTask("invoice", {
  schema: z.object({ number: z.number(), euros: z.number() }),
});
// What the program of today has.
const second = defineTask("invoice", {
  schema: z.object({ number: z.number(), cents: z.number().int() }),
  version: 2,
  upgrade(data) {
    const { number, euros } = /** @type {{ number: number, euros: number }} */ (data);
    console.log(
      `the new worker upgraded invoice ${number}: ${euros} euros are ${euros * 100} cents`,
    );
    return { number, cents: euros * 100 };
  },
});

const leasehold = await connect("memory:");
try {
  const { tasks } = leasehold;
  const old = await tasks.enqueueAll(
    first,
    [1, 2].map((number) => ({ data: { number, euros: 10 } })),
  );
  const [fresh] = await tasks.enqueueAll(second, [{ data: { number: 4, cents: 4_000 } }]);
  const done = { old: 0, new: 0 };
  const oldWorker = tasks.work([first.handle(() => ++done.old)]);
  await Promise.all(old.map((handle) => handle.result()));
  console.log(`the old worker did ${done.old} invoices of version 1`);
  const newWorker = tasks.work([second.handle(() => ++done.new)]);
  await fresh?.result();
  console.log(`the new worker did ${done.new} invoice of version 2`);

  // The last old program ends: what it enqueued is upgraded.
  await oldWorker.close();
  await (await tasks.enqueue(first, { number: 3, euros: 30 })).result();
  await newWorker.close();
  console.log((await tasks.counts()).dead === 0 ? "none is dead" : "some are dead");
} finally {
  await leasehold.close();
}

/**
 * A kind of task in two versions, while the old program and the new one run side by side.
 *
 *   node examples/two-versions.js
 *
 * You will see that the old worker leaves the new tasks alone, that the new one upgrades the old tasks, and that a server
 * refuses data that does not match the published schema, whatever language it comes from.
 */
import { connect, defineTask, openStores } from "leasehold";
import { createApp, listen } from "leasehold-server";
import { z } from "zod";

// What the program of last week had.
const first = defineTask("invoice", {
  schema: z.object({ number: z.number(), euros: z.number() }),
});
// What the program of today has.
const second = defineTask("invoice", {
  schema: z.object({ number: z.number(), cents: z.number().int() }),
  version: 2,
  publish: true,
  upgrade(data) {
    const { number, euros } = /** @type {{ number: number, euros: number }} */ (data);
    console.log(
      `the new worker upgraded invoice ${number}: ${euros} euros are ${euros * 100} cents`,
    );
    return { number, cents: euros * 100 };
  },
});

const stores = await openStores("memory:");
const server = await listen({
  app: createApp({ ...stores, auth: "none", version: "1.0.0" }),
  port: 0,
});
const leasehold = await connect(server.url);
try {
  const { tasks } = leasehold;
  const old = await tasks.enqueueAll(
    first,
    [1, 2].map((number) => ({ data: { number, euros: 10 } })),
  );
  const [fresh] = await tasks.enqueueAll(second, [{ data: { number: 4, cents: 4_000 } }]);
  const [published] = (await tasks.kinds.list()).items;
  const { properties } = /** @type {{ properties: object }} */ (published?.schema);
  console.log(
    `published: ${published?.kind} ${published?.version}, members ${Object.keys(properties).join(", ")}`,
  );

  // A program in any language, by HTTP.
  const response = await fetch(`${server.url}/api/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify([{ kind: "invoice", version: 2, task_data: { number: 5, cents: "50" } }]),
  });
  const { errors } = await response.json();
  console.log(`refused: ${errors[0].path} ${errors[0].problem}`);

  const done = { old: 0, new: 0 };
  const oldWorker = tasks.work([first.handle(() => void (done.old += 1) ?? null)]);
  await Promise.all(old.map((handle) => handle.result()));
  console.log(`the old worker did ${done.old} invoices of version 1`);
  const newWorker = tasks.work([second.handle(() => void (done.new += 1) ?? null)]);
  await fresh?.result();
  console.log(`the new worker did ${done.new} invoice of version 2`);

  // The last old program ends: what it enqueued is upgraded.
  await oldWorker.close();
  await (await tasks.enqueue(first, { number: 3, euros: 30 })).result();
  await newWorker.close();
  console.log((await tasks.counts()).dead === 0 ? "none is dead" : "some are dead");
} finally {
  await leasehold.close();
  await server.close();
  await stores.close();
}

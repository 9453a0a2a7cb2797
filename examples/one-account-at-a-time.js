/**
 * Payments of an account run one at a time and in order, whatever worker takes them; those of other accounts run beside them.
 *
 *   node examples/one-account-at-a-time.js [URL]
 *
 * URL says where the tasks are kept: http://127.0.0.1:4040 while `npm start` runs, postgres://...; without one, PGlite in
 * this process.
 *
 * You will see that ada's second payment waits while her first one fails and is tried again, and that joan's do not wait.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, defineTask } from "leasehold";

const pay = defineTask("pay", {
  concurrencyKey: (/** @type {{ account: string, number: number }} */ payment) => payment.account,
  queue: "payments",
  backoff: { firstMs: 200 },
});

/** @type {string[]} */
const running = [];
const handler = pay.handle(async ({ account, number }, { task, signal }) => {
  if (running.includes(account)) throw new Error(`two payments of ${account} at once`);
  running.push(account);
  try {
    console.log(`${account} ${number}, attempt ${task.attempt}`);
    await sleep(100, undefined, { signal });
    if (account === "ada" && number === 1 && task.attempt === 1)
      throw new Error("the bank does not answer");
  } finally {
    running.splice(running.indexOf(account), 1);
  }
});

const leasehold = await connect(process.argv[2] ?? "pglite:");
try {
  const { tasks } = leasehold;
  const payments = [1, 2, 3].flatMap((number) => [
    { data: { account: "ada", number } },
    { data: { account: "joan", number } },
  ]);
  const handles = await tasks.enqueueAll(pay, payments);
  // Two workers with many places each. They never run two payments of one account at once.
  for (let worker = 0; worker < 2; worker += 1) {
    tasks.work([handler], { queues: ["payments"], concurrency: 10 });
  }
  await Promise.all(handles.map((handle) => handle.result()));
  console.log("all paid");
} finally {
  await leasehold.close();
}

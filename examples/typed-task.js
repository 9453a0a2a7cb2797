/**
 * A kind of task with a schema: what is enqueued and what the handler gets are known to the compiler,
 * and checked where it matters. Any standard-schema library will do; this one is zod.
 *
 *   node examples/typed-task.js [URL]
 *
 * URL says where the tasks are kept: http://127.0.0.1:4040 while `npm start` runs, postgres://...;
 * without one, PGlite in this process.
 *
 * You will see a wrong field refused by its name before anything is stored, a first attempt that
 * fails, and a second one that reports its progress and succeeds.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, defineTask, InvalidOptionError } from "leasehold";
import { z } from "zod";

const renderReport = defineTask("report.render", {
  schema: z.object({
    customer: z.string().min(1),
    pages: z.number().int().positive(),
    // Travels as text; the handler gets a Date.
    day: z.iso.date().transform((text) => new Date(text)),
  }),
  queue: "reports",
  maxAttempts: 3,
  backoff: { firstMs: 100 },
});

const handler = renderReport.handle(async (report, { task, signal, progress }) => {
  const { customer, pages, day } = report;
  console.log(
    `attempt ${task.attempt} of ${task.maxAttempts}: ${customer}, ${day.getUTCFullYear()}`,
  );
  for (let page = 1; page <= pages; page += 1) {
    // The work. Rejects when the lease is lost, because another worker may already run this task.
    await sleep(500, undefined, { signal });
    // Sent with the next heartbeat.
    progress({ page, of: pages });
    if (page === 3 && task.attempt === 1) throw new Error("the printer is on fire");
  }
  return { file: `${customer}.pdf`, bytes: pages * 1_000 };
});

const leasehold = await connect(process.argv[2] ?? "pglite:");
const { tasks } = leasehold;
try {
  const report = { customer: "ada", pages: 4, day: "2026-04-30" };
  try {
    // @ts-expect-error The compiler says that "4" is no number. So does the schema:
    await tasks.enqueue(renderReport, { ...report, pages: "4" });
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    console.log(`refused: ${error.message}`);
  }

  const { id } = await tasks.enqueue(renderReport, report);
  // Heartbeats come at a third of the ttl.
  tasks.work([handler], { queues: ["reports"], ttlMs: 3_000 });
  let task = await tasks.get(id);
  let seen = "";
  while (task?.state === "pending" || task?.state === "running") {
    await sleep(50);
    task = await tasks.get(id);
    const progress = JSON.stringify(task?.progress);
    if (task?.progress && progress !== seen) console.log(`progress ${progress}`);
    seen = progress;
  }
  console.log(`${task?.state}, output ${JSON.stringify(task?.output)}`);
  for (const { attempt, result, error } of task?.attempts ?? []) {
    console.log(`attempt ${attempt} ${result}${error ? `, ${error.split("\n", 1)}` : ""}`);
  }
} finally {
  await leasehold.close();
}

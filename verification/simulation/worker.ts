/** A thread of `simulate`: runs the seeds of each order, and answers with a report. */
import { parentPort } from "node:worker_threads";
import { newReport, runSeed } from "./index.js";
import { settledByTicks } from "./settled.js";

export interface Order {
  readonly from: number;
  readonly seeds: number;
  readonly scenario: string | null;
}

parentPort?.on("message", (order: Order) => void carryOut(order));

/** Many errors are made and caught there, and no stack is read: a replay runs outside of this thread. */
Error.stackTraceLimit = 0;

async function carryOut({ from, seeds, scenario }: Order): Promise<void> {
  const report = newReport();
  for (let seed = from; seed < from + seeds; seed++) {
    await runSeed(report, seed, { name: scenario ?? undefined, settled: settledByTicks });
  }
  parentPort?.postMessage(report);
}

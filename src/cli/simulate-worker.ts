/** A thread of `simulate`: runs seeds as it is told, and answers what came of them. */
import { parentPort } from "node:worker_threads";
import { newReport, runSeed } from "../simulation/index.js";

export interface Order {
  readonly from: number;
  readonly seeds: number;
  readonly scenario: string | null;
}

parentPort?.on("message", (order: Order) => void carryOut(order));

async function carryOut({ from, seeds, scenario }: Order): Promise<void> {
  const report = newReport();
  for (let seed = from; seed < from + seeds; seed++) {
    await runSeed(report, seed, scenario ?? undefined);
  }
  parentPort?.postMessage(report);
}

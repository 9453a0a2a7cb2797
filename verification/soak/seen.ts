/** What is seen of a soak, and what is claimed of it. */
import type { DatabaseState } from "./database.js";
import type { FaultRecord } from "./faults.js";
import type { Cycle, Plan } from "./plan.js";
import type { Loss, Measured, Probe } from "./processes.js";
import type { Starved } from "./starvation.js";

/** Everything at one moment; a process that did not answer is missing. */
export interface Sample {
  readonly atMs: number;
  /** When the measuring was over: what was probed meanwhile met its pauses. */
  readonly doneMs: number;
  readonly processes: Readonly<Record<string, Measured>>;
  readonly database: DatabaseState;
  /** How many grants and tasks have gone through the server so far. */
  readonly served: { readonly grants: number; readonly tasks: number };
}

/** What became of the tasks that were accepted. */
export interface TaskTotals {
  readonly accepted: number;
  readonly doneOnce: number;
  /** The first few of the others. */
  readonly wrong: readonly string[];
}

export interface Seen {
  readonly plan: Plan;
  readonly cycles: readonly Cycle[];
  readonly samples: readonly Sample[];
  /** Of leases, and of tasks from their enqueue to their completion. */
  readonly probes: readonly Probe[];
  readonly losses: readonly Loss[];
  readonly faults: readonly FaultRecord[];
  readonly starved: readonly Starved[];
  readonly tasks: TaskTotals;
  /** By the load: how often it did what; see load.js. */
  readonly counts: Readonly<Record<string, number>>;
}

export interface Claim {
  readonly claim: string;
  readonly holds: boolean;
  readonly figure: string;
  /** How much is allowed, and why. */
  readonly allowed: string;
}

export const tooRare = (first: number, last: number) =>
  `happened too rarely to prove anything: ${first} and ${last}`;

/** What a person does to the world, as data: one table says the fields of each act and their ranges. */
import { CLOCK_RANGE, NODES, type NodeName, type NumberSetting, RANGES } from "./settings.js";

/** Whom an act may hit: a process, or the store itself. */
export type Target = NodeName | "store";

export type Act =
  /** Like kill -9: nothing of the process ever runs again. The store keeps its records. */
  | { readonly kind: "crash"; readonly node: Target }
  /** A new process, which knows nothing of the old one. */
  | { readonly kind: "restart"; readonly node: Target }
  /**
   * Stands still while all clocks go on: a long garbage collection. `midWrite` waits for the moment
   * when a write has been checked against the lease, but not sent.
   */
  | { readonly kind: "pause"; readonly node: Target; readonly midWrite?: boolean }
  /** As a pause, and the monotonic clock stands still too: a laptop's lid, a moved virtual machine. */
  | { readonly kind: "suspend"; readonly node: NodeName }
  /** Ends a pause or a suspension. */
  | { readonly kind: "resume"; readonly node: Target }
  /** Nothing gets through between process and store: both ways, or one of them. */
  | { readonly kind: "cut"; readonly node: NodeName; readonly way: CutWay }
  | { readonly kind: "mend"; readonly node: NodeName }
  /** The clocks of the process run faster or slower from now on. */
  | { readonly kind: "rate"; readonly node: NodeName; readonly percent: number }
  /** The wall clock is set, forward or back. */
  | { readonly kind: "jump"; readonly node: NodeName; readonly ms: number }
  /** Ends the lease in the store, as if its time were over; nobody is told. */
  | { readonly kind: "expire" }
  /** The leader gives up by itself, and releases; with a successor, others stand aside for it. */
  | { readonly kind: "resign"; readonly successor?: NodeName }
  /** An operator ends the lease: at its expiry (renewals are refused), or at once. */
  | { readonly kind: "revoke"; readonly free: "atExpiry" | "now" }
  | { readonly kind: "drop"; readonly message: number }
  | { readonly kind: "delay"; readonly message: number; readonly byMs: number }
  | { readonly kind: "duplicate"; readonly message: number }
  /** The next answer of this kind to the process is lost. */
  | { readonly kind: "dropAnswer"; readonly node: NodeName; readonly of: AnswerKind }
  | { readonly kind: "fence"; readonly on: boolean }
  /** From now on; what a lease is asked with applies to the present leader from its next term on. */
  | { readonly kind: "set"; readonly setting: NumberSetting; readonly value: number };

export type ActKind = Act["kind"];
export type CutWay = "both" | "requests" | "answers";
export type AnswerKind = "acquire" | "renew" | "release" | "write";

/** An act, and when it was done in true time: whole milliseconds from the beginning. */
export interface TimedAct {
  readonly atMs: number;
  readonly act: Act;
}

/** How a field of an act is written and checked. */
export type Field = { readonly name: string; readonly optional?: true } & (
  | { readonly type: "choice"; readonly of: readonly string[] }
  | { readonly type: "number"; readonly min: number; readonly max: number; readonly whole: boolean }
  | { readonly type: "flag" }
);

const choice = (name: string, of: readonly string[]): Field => ({ name, type: "choice", of });
const number = (name: string, min: number, max: number): Field => ({
  name,
  type: "number",
  min,
  max,
  whole: true,
});
const node = choice("node", NODES);
const target = choice("node", [...NODES, "store"]);
const message = number("message", 1, 1e6);

/** The fields of each act, in the order in which they are written. */
export const ACT_FIELDS: Readonly<Record<ActKind, readonly Field[]>> = {
  crash: [target],
  restart: [target],
  pause: [target, { name: "midWrite", type: "flag", optional: true }],
  suspend: [node],
  resume: [target],
  cut: [node, choice("way", ["both", "requests", "answers"])],
  mend: [node],
  rate: [node, number("percent", CLOCK_RANGE.min, CLOCK_RANGE.max)],
  jump: [node, number("ms", -3_600_000, 3_600_000)],
  expire: [],
  resign: [{ name: "successor", type: "choice", of: NODES, optional: true }],
  revoke: [choice("free", ["atExpiry", "now"])],
  drop: [message],
  delay: [message, number("byMs", 1, 60_000)],
  duplicate: [message],
  dropAnswer: [node, choice("of", ["acquire", "renew", "release", "write"])],
  fence: [{ name: "on", type: "flag" }],
  set: [
    choice("setting", Object.keys(RANGES)),
    { name: "value", type: "number", min: 0, max: 60_000, whole: false },
  ],
};

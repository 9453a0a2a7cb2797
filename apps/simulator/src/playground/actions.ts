/** The user's actions as data. One table lists the fields of each action and their ranges. */
import { CLOCK_RANGE, NODES, type NodeName, type NumberSetting, RANGES } from "./settings.js";

/** The target of an action: a process, or the store. */
export type Target = NodeName | "store";

export type Action =
  /** Like kill -9. A store keeps its records. */
  | { readonly kind: "crash"; readonly node: Target }
  /** Starts a new process without the state of the old one. */
  | { readonly kind: "restart"; readonly node: Target }
  /**
   * Freezes the process while all clocks run on, like a long garbage collection. `midWrite` waits for the
   * moment between the lease check and the send of a write.
   */
  | { readonly kind: "pause"; readonly node: Target; readonly midWrite?: boolean }
  /** A pause in which the monotonic clock stops too: a closed laptop, a migrated virtual machine. */
  | { readonly kind: "suspend"; readonly node: NodeName }
  /** Ends a pause or a suspension. */
  | { readonly kind: "resume"; readonly node: Target }
  /** Cuts the network between the process and the store, in both directions or in one. */
  | { readonly kind: "cut"; readonly node: NodeName; readonly way: CutWay }
  | { readonly kind: "mend"; readonly node: NodeName }
  /** Changes the speed of the process's clocks. */
  | { readonly kind: "rate"; readonly node: NodeName; readonly percent: number }
  /** Sets the wall clock forward or back. */
  | { readonly kind: "jump"; readonly node: NodeName; readonly ms: number }
  /** Ends the lease in the store as if it had expired. The holder gets no message. */
  | { readonly kind: "expire" }
  /** The leader stops and releases the lease. With a successor, the others let that one go first. */
  | { readonly kind: "resign"; readonly successor?: NodeName }
  /** An operator revokes the lease: at its expiry (renewals are refused) or at once. */
  | { readonly kind: "revoke"; readonly free: "atExpiry" | "now" }
  | { readonly kind: "drop"; readonly message: number }
  | { readonly kind: "delay"; readonly message: number; readonly byMs: number }
  | { readonly kind: "duplicate"; readonly message: number }
  /** Loses the next answer of this kind to the process. */
  | { readonly kind: "dropAnswer"; readonly node: NodeName; readonly of: AnswerKind }
  | { readonly kind: "fence"; readonly on: boolean }
  /** Applies from now on; settings of leases apply to the current leader from its next term. */
  | { readonly kind: "set"; readonly setting: NumberSetting; readonly value: number };

export type ActionKind = Action["kind"];
export type CutWay = "both" | "requests" | "answers";
export type AnswerKind = "acquire" | "renew" | "release" | "write";

/** An action and its time: true time in whole milliseconds since the start. */
export interface TimedAction {
  readonly atMs: number;
  readonly action: Action;
}

/** How a field of an action is encoded and validated. */
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

/** The fields of each action, in the order of the encoding. */
export const ACTION_FIELDS: Readonly<Record<ActionKind, readonly Field[]>> = {
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

/**
 * Whether there is an order of the requests on a resource that explains every answer: each takes
 * effect at one instant between its invocation and its return, and decides as the rules do (model.ts).
 * One without an answer takes effect at any time after its invocation, or never.
 *
 * The problem is NP-complete, so the search (search.ts) counts its steps and, beyond a budget, says that it does
 * not know. Histories of 8 clients and 200 requests each are well within it.
 */

import { invariant } from "../../env/index.js";
import type { Capabilities } from "../../lease/index.js";
import { type HistoryEntry, keyText, lineOf } from "./entry.js";
import { describeState } from "./model.js";
import { type Limits, search, unanswered } from "./search.js";

/** Options of `checkLinearizability`. */
export interface LinearizabilityOptions {
  /** By how much clocks may drift apart over the length of a grant. Default 1. */
  readonly toleranceMs?: number;
  /** The store's `capabilities.ttl`. Default: any whole millisecond is granted as asked. */
  readonly ttl?: Pick<Capabilities["ttl"], "minMs" | "stepMs">;
  /**
   * By how much a grant may outlive the time in its holder's answer. It is for engines whose sessions end
   * late, or whose contenders only observe. `Infinity`: no bound is known. Default 0: the store's clock decides.
   */
  readonly lateMs?: number;
  /**
   * Whether the store repeats acquire, renew and release by itself when an answer is lost, as the
   * HTTP store does: then each may also take effect unseen, at any time after it was sent. It costs
   * many steps, and none where the recorder counted the `tries`. Default false.
   */
  readonly repeats?: boolean;
  /** Maximum number of steps of the model for each resource. Beyond it the answer is `unknown`. Default 1,000,000. */
  readonly maxSteps?: number;
}

/** The result of `checkLinearizability`. */
export interface Linearizability {
  /** `unknown`: the budget was used up. It says nothing. */
  readonly verdict: "linearizable" | "not" | "unknown";
  /** Per resource, the ones that are not linearizable first. */
  readonly resources: readonly ResourceVerdict[];
}

/** What was found for one resource. */
export interface ResourceVerdict {
  readonly namespace: string;
  readonly resource: string;
  readonly verdict: "linearizable" | "not" | "unknown";
  readonly requests: number;
  /** Of the model, spent on the verdict. */
  readonly steps: number;
  /**
   * Of a `not`: the shortest beginning of the history that nothing explains, by the times of the
   * answers, as lines; requests that had no answer yet stand in it as unknown. Otherwise empty.
   */
  readonly explanation: readonly string[];
}

const DEFAULT_MAX_STEPS = 1_000_000;
/** Of an explanation: earlier requests are counted, not shown. */
const LINES = 40;
const SEVERITY = { not: 0, unknown: 1, linearizable: 2 };

/**
 * Judges each resource of a history by itself. It must hold everything that was asked of them, from
 * the first request on, and nothing may have been collected.
 * @example
 * ```ts
 * import { connect, openStores } from "leasehold";
 * import { checkLinearizability, recordHistory } from "leasehold/testing";
 *
 * const stores = await openStores("memory:");
 * const { store, history } = recordHistory(stores.leases, { monotonic: () => performance.now() });
 * const leasehold = await connect(store);
 * await leasehold.run("billing", () => {});
 * console.log(checkLinearizability(history.entries()).verdict);
 * await leasehold.close();
 * await stores.close();
 * ```
 */
export function checkLinearizability(
  history: Iterable<HistoryEntry>,
  options: LinearizabilityOptions = {},
): Linearizability {
  const { toleranceMs = 1, ttl = { minMs: 1, stepMs: 1 }, lateMs = 0, repeats = false } = options;
  const budget = options.maxSteps ?? DEFAULT_MAX_STEPS;
  const byKey = new Map<string, HistoryEntry[]>();
  for (const entry of history) {
    const key = keyText(entry.request);
    const entries = byKey.get(key);
    if (entries) entries.push(entry);
    else byKey.set(key, [entry]);
  }
  const resources = [...byKey.values()].map((entries) =>
    judge(entries, { toleranceMs, ttl, lateMs, repeats, budget }),
  );
  resources.sort((a, b) => SEVERITY[a.verdict] - SEVERITY[b.verdict]);
  return { verdict: resources[0]?.verdict ?? "linearizable", resources };
}

function judge(entries: readonly HistoryEntry[], limits: Limits): ResourceVerdict {
  const [first] = entries;
  invariant(first, "an entry of the resource");
  const { namespace, resource } = first.request;
  const { verdict, steps } = search(entries, limits);
  const explanation = verdict === "not" ? explain(entries, limits) : [];
  return { namespace, resource, verdict, requests: entries.length, steps, explanation };
}

/** The shortest beginning that is wrong, found by halving: what follows on one that is, is as well. */
function explain(entries: readonly HistoryEntry[], limits: Limits): readonly string[] {
  const returns = entries
    .flatMap(({ result, returnMs }) => (result === "ok" && returnMs !== null ? [returnMs] : []))
    .sort((a, b) => a - b);
  let [good, bad] = [-1, returns.length - 1];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    const { verdict } = search(until(entries, returns[middle] ?? 0), limits);
    if (verdict === "not") bad = middle;
    else good = middle;
  }
  const lastMs = returns[bad] ?? 0;
  const prefix = until(entries, lastMs).sort((a, b) => a.invokeMs - b.invokeMs);
  const { deepest } = search(prefix, limits);
  const last = prefix.find(({ returnMs }) => returnMs === lastMs);
  const hidden = Math.max(0, prefix.length - LINES);
  return [
    ...(hidden > 0 ? [`... ${hidden} requests before`] : []),
    ...prefix.slice(hidden).map(lineOf),
    `no order explains: ${last ? lineOf(last) : ""}`,
    `the most that is explained ends with ${describeState(deepest)}`,
  ];
}

/** What was known at that time. */
function until(entries: readonly HistoryEntry[], timeMs: number): HistoryEntry[] {
  return entries
    .filter(({ result, invokeMs }) => result !== "fail" && invokeMs <= timeMs)
    .map((entry) => {
      const known = entry.returnMs === null || entry.returnMs <= timeMs;
      return known ? entry : unanswered(entry, "no answer yet");
    });
}

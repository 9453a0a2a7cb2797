/** Many histories on one target, some at a time, and the verdict of both checkers on each. */
import { checkGrants, checkLinearizability } from "leasehold/testing";
import { startPostgres } from "../../tests/support/postgres-engine.js";
import { HISTORY_ENGINES, onEngine } from "./engines.js";
import { type MadeHistory, makeHistory } from "./histories.js";
import {
  type HistorySize,
  type HistoryTarget,
  httpTarget,
  memoryTarget,
  postgresTarget,
  sums,
} from "./targets.js";

/** `unknown`: the checker's budget was used up. */
export type Judgement = "right" | "wrong" | "unknown";

export interface JudgedHistory extends MadeHistory {
  readonly verdict: Judgement;
  /** Why it is not right, as lines. */
  readonly explanation: readonly string[];
}

export interface Campaign {
  readonly verdicts: Readonly<Record<Judgement, number>>;
  readonly requests: number;
  readonly answers: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
}

export interface CampaignOptions {
  readonly seeds: readonly number[];
  readonly parallel: number;
  readonly size?: HistorySize;
  readonly onResult?: (result: JudgedHistory) => void;
  /** No more are begun. */
  readonly signal?: AbortSignal;
}

type Use = (target: HistoryTarget) => Promise<Campaign>;

/** By name: starts what the target needs, and ends it. */
const TARGETS: Readonly<Record<string, (use: Use) => Promise<Campaign>>> = {
  memory: (use) => use(memoryTarget),
  postgres: (use) => onPostgres((url) => use(postgresTarget(url))),
  http: (use) => onPostgres((url) => use(httpTarget(url))),
  ...Object.fromEntries(HISTORY_ENGINES.map((name) => [name, (use: Use) => onEngine(name, use)])),
};

/** On a store by name, with an engine of its own where it needs one. */
export async function runCampaign(
  options: CampaignOptions & { readonly target: string },
): Promise<Campaign> {
  const on = TARGETS[options.target];
  if (!on) throw new Error(`--target is one of ${Object.keys(TARGETS).join(", ")}`);
  return on((target) => makeHistories(target, options));
}

async function onPostgres<T>(use: (url: string) => Promise<T>): Promise<T> {
  const server = await startPostgres();
  try {
    return await use(server.url);
  } finally {
    await server.remove();
  }
}

/** Of the model, for each resource that needs them. */
const PATIENT_STEPS = 5_000_000;

export async function makeHistories(
  target: HistoryTarget,
  { seeds, parallel, size = target.size, onResult, signal }: CampaignOptions,
): Promise<Campaign> {
  const verdicts = { right: 0, wrong: 0, unknown: 0 };
  const results: Pick<MadeHistory, "faults" | "answers">[] = [];
  let requests = 0;
  for (let at = 0; at < seeds.length && !signal?.aborted; at += parallel) {
    const made = seeds.slice(at, at + parallel).map((seed) => makeHistory(target, seed, size));
    // Judged when all are made: it would keep the clients of others from their work.
    for (const history of await Promise.all(made)) {
      const result = judged(target, history);
      verdicts[result.verdict] += 1;
      requests += result.entries.length;
      results.push({ faults: result.faults, answers: result.answers });
      onResult?.(result);
    }
  }
  const answers = sums(results.map((result) => result.answers));
  return { verdicts, requests, answers, faults: sums(results.map((result) => result.faults)) };
}

export function judged(
  target: Pick<HistoryTarget, "repeats" | "lateMs" | "ttl">,
  history: MadeHistory,
): JudgedHistory {
  const { repeats = false, lateMs = 0, ttl = { minMs: 1, stepMs: 1 } } = target;
  const { violations } = checkGrants(history.entries);
  const options = { repeats, lateMs, ttl };
  const quick = checkLinearizability(history.entries, options);
  // One in a hundred has more orders than are tried at first.
  const { verdict, resources } =
    quick.verdict === "unknown"
      ? checkLinearizability(history.entries, { ...options, maxSteps: PATIENT_STEPS })
      : quick;
  const explanation = [
    ...violations.flatMap(({ property, explanation: lines }) => [`${property}:`, ...lines]),
    ...resources.flatMap((one) => one.explanation),
  ];
  const wrong = violations.length > 0 || verdict === "not";
  const judgement = wrong ? "wrong" : verdict === "unknown" ? "unknown" : "right";
  return { ...history, verdict: judgement, explanation };
}

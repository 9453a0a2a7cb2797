/** Many histories on one target, some at a time, and the verdict of both checkers on each. */
import { grantIdOf } from "leasehold/internal";
import {
  checkGrants,
  checkLinearizability,
  type HistoryEntry,
  type Linearizability,
  type LinearizabilityOptions,
} from "leasehold/testing";
import { startPostgres } from "../../tests/support/engines/postgres-engine.js";
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

/**
 * A history is right if an order explains its answers in which no request took effect a second time, nor one without an answer
 * that left no trace at all. There are far fewer of these orders, as both might happen at any time. What they do not explain,
 * all orders may.
 */
function checkInSteps(
  entries: readonly HistoryEntry[],
  options: LinearizabilityOptions,
): Linearizability {
  const fewer = checkLinearizability(withoutUnreported(entries), { ...options, repeats: false });
  if (fewer.verdict === "linearizable") return fewer;
  const quick = checkLinearizability(entries, options);
  if (quick.verdict !== "unknown") return quick;
  return checkLinearizability(entries, { ...options, maxSteps: PATIENT_STEPS });
}

/** Without the acquires that have no answer, and whose grants no other answer reports. */
function withoutUnreported(entries: readonly HistoryEntry[]): HistoryEntry[] {
  const reported = new Set(entries.map(grantReported));
  return entries.filter(
    ({ operation, request, result }) =>
      operation !== "acquire" || result !== "unknown" || reported.has(grantIdOf(request.leaseId)),
  );
}

/** Answers that only who was granted the lease gets. */
const GRANTED: ReadonlySet<string> = new Set(["acquired", "ended", "renewed", "released"]);

/** The id of the grant that an answer reports. */
function grantReported({ operation, request, outcome }: HistoryEntry): string | null {
  if (outcome?.status === "held") return outcome.grantId;
  const isOwn = outcome !== null && GRANTED.has(outcome.status) && operation !== "revoke";
  return isOwn ? grantIdOf(request.leaseId) : null;
}

export function judged(
  target: Pick<HistoryTarget, "repeats" | "lateMs" | "ttl">,
  history: MadeHistory,
): JudgedHistory {
  const { repeats = false, lateMs = 0, ttl = { minMs: 1, stepMs: 1 } } = target;
  const { violations } = checkGrants(history.entries);
  const options = { repeats, lateMs, ttl };
  const { verdict, resources } = checkInSteps(history.entries, options);
  const explanation = [
    ...violations.flatMap(({ property, explanation: lines }) => [`${property}:`, ...lines]),
    ...resources.flatMap((one) => one.explanation),
  ];
  const wrong = violations.length > 0 || verdict === "not";
  const judgement = wrong ? "wrong" : verdict === "unknown" ? "unknown" : "right";
  return { ...history, verdict: judgement, explanation };
}

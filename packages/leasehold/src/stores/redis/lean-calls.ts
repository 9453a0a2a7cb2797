/** Sends batches to the lean scripts first (lean-scripts.ts), and what they leave undecided to the general ones. */
import type {
  AcquireOutcome,
  AcquireRequest,
  CallOptions,
  Failed,
  Grant,
  ReleaseOutcome,
} from "../../core/index.js";
import { invariant, type Recent } from "../../env/index.js";
import type { Lane } from "./connection-servers.js";
import { failedOutcome } from "./failures.js";
import type { LEAN_SCRIPTS } from "./lean-scripts.js";
import { granted } from "./records.js";
import { byGroup, type ScriptCalls } from "./scripts-call.js";

/** Lease ids are sent in one text. */
const ID_LENGTH = 48;

/** A lean script for a batch of requests. */
export interface LeanScript<Outcome> {
  readonly name: keyof typeof LEAN_SCRIPTS;
  readonly lane: Lane;
  readonly requests: readonly Grant[];
  /** What all requests have in common. */
  readonly common: readonly string[];
  /** The outcome of each request that the script decides. */
  readonly outcomeAt: (nowUs: number) => Outcome;
}

/** Null unless the requests differ in their resources and lease ids alone, and none waits. */
export function leanAcquire(
  requests: readonly AcquireRequest[],
  options: CallOptions | undefined,
): LeanScript<AcquireOutcome> | null {
  const [first] = requests;
  if (!first || options?.returnReplaced) return null;
  const { holder, ttlMs, metadata = null } = first;
  for (const request of requests) {
    if (request.queueMs || request.holder !== holder || request.ttlMs !== ttlMs) return null;
    if ((request.metadata ?? null) !== metadata) return null;
    if (request.leaseId.length !== ID_LENGTH) return null;
  }
  const common = [holder, `${ttlMs}`, JSON.stringify(metadata)];
  const outcomeAt = (nowUs: number) => granted(first, nowUs, nowUs);
  return { name: "acquireFree", lane: "general", requests, common, outcomeAt };
}

const RELEASED: ReleaseOutcome = { status: "released" };

/**
 * Null for a grant that was waited for: others probably wait behind it, and the general script wakes the first of them.
 * @param awaited the lease ids of such grants
 */
export function leanRelease(
  requests: readonly Grant[],
  awaited: Recent<true>,
): LeanScript<ReleaseOutcome> | null {
  for (const { leaseId } of requests) {
    if (leaseId.length !== ID_LENGTH || awaited.get(leaseId)) return null;
  }
  return {
    name: "releaseHeld",
    lane: "control",
    requests,
    common: [],
    outcomeAt: () => RELEASED,
  };
}

/** The outcome of each request; null: the general script decides it. */
export function askLean<Outcome>(
  { servers, keys, scripts }: ScriptCalls,
  { name, lane, requests, common, outcomeAt }: LeanScript<Outcome>,
  deadlineMs: number,
): Promise<(Outcome | Failed | null)[]> {
  const run = async (batch: readonly Grant[]): Promise<(Outcome | Failed | null)[]> => {
    const indexes = new Set<string>();
    const records: string[] = [];
    let leaseIds = "";
    for (const request of batch) {
      const index = keys.indexOf(request);
      indexes.add(index);
      records.push(`${index}:${request.resource}`);
      leaseIds += request.leaseId;
    }
    const isAcquire = name === "acquireFree";
    const places = isAcquire ? [...indexes, ...records] : records;
    const args = isAcquire ? [`${indexes.size}`, ...common, leaseIds] : [leaseIds];
    try {
      const answers = await servers.run(lane, scripts[name], places, args, deadlineMs);
      invariant(Array.isArray(answers) && answers.length > 0, "a reply with the time");
      const [nowUs, ...undecided] = answers as [number, ...number[]];
      const outcomes = new Array<Outcome | null>(batch.length).fill(outcomeAt(nowUs));
      for (const number of undecided) outcomes[number - 1] = null;
      return outcomes;
    } catch (error) {
      return new Array<Failed>(batch.length).fill(failedOutcome(error));
    }
  };
  return byGroup(servers, requests, (request) => keys.indexOf(request), run);
}

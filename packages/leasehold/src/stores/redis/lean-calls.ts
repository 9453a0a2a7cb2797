/** The arguments that the lean scripts take (lean-scripts.ts), and what their replies decide. */
import { invariant, isoTime } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  type Grant,
  LONGEST_WAITER_MS,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  viewOf,
} from "../../lease/index.js";
import type { LeanAnswers, Loaded } from "../../store-kit/index.js";
import type { Keys } from "./keys.js";
import type { LEAN_SCRIPTS } from "./lean-scripts.js";
import { type Fields, loadedOf, recordOf, type Version } from "./lease-load.js";

/** A call of a lean script for requests whose keys share a group. */
export interface LeanCall<Outcome> {
  readonly name: keyof typeof LEAN_SCRIPTS;
  readonly places: readonly string[];
  readonly args: readonly string[];
  readonly answersOf: (reply: unknown) => LeanAnswers<Outcome, Version>;
}

type What = "replaced" | "joined" | "loaded" | "renewed" | "longer" | "failed";
/** A request that has an answer has three items: its number, a `What`, and the answer. */
type Answers = readonly [nowUs: number, ...(number | string | Fields)[]];

export function leanAcquire(
  keys: Keys,
  requests: readonly AcquireRequest[],
  returnReplaced: boolean,
): LeanCall<AcquireOutcome> {
  const replaced = returnReplaced ? "1" : "";
  const waits = requests.some(({ queueMs }) => queueMs);
  const areAlike = (a: AcquireRequest, b: AcquireRequest) =>
    a.holder === b.holder &&
    a.ttlMs === b.ttlMs &&
    a.queueMs === b.queueMs &&
    a.metadata === b.metadata;
  const optionsOf = ({ holder, ttlMs, metadata, queueMs = 0 }: AcquireRequest) => [
    holder,
    `${ttlMs}`,
    JSON.stringify(metadata ?? null),
    `${Math.ceil(Math.min(queueMs, LONGEST_WAITER_MS))}`,
    replaced,
  ];
  return leanCall<AcquireRequest, AcquireOutcome>(keys, requests, {
    name: waits ? "acquireOrJoin" : "acquireFree",
    hasQueue: waits,
    areAlike,
    optionsOf,
    clear: ({ ttlMs }, nowUs) => ({
      status: "acquired",
      token: nowUs,
      ttlMs,
      remainingMs: ttlMs,
      expiresAt: isoTime(nowUs / 1_000 + ttlMs),
    }),
    answered(request, granted, nowUs, answer) {
      const before = recordOf(answer as Fields);
      invariant(granted && before, "a grant before");
      return { ...granted, replaced: viewOf(request, before, nowUs / 1_000, isoTime) };
    },
  });
}

export function leanRenew(keys: Keys, requests: readonly RenewRequest[]): LeanCall<RenewOutcome> {
  return leanCall<RenewRequest, RenewOutcome>(keys, requests, {
    name: "renew",
    hasQueue: false,
    areAlike: (a, b) => a.ttlMs === b.ttlMs,
    optionsOf: ({ ttlMs }) => [`${ttlMs}`],
    clear: () => null,
    answered({ ttlMs }, _, nowUs, answer) {
      const [token = 0, untilUs = nowUs + ttlMs * 1_000] = [answer].flat().map(Number);
      // Rounded down, so that the holder stops early rather than late.
      const remainingMs = Math.floor((untilUs - nowUs) / 1_000);
      return { status: "renewed", token, ttlMs, remainingMs, expiresAt: isoTime(untilUs / 1_000) };
    },
  });
}

const RELEASED: ReleaseOutcome = { status: "released" };

/** @param mayWake whether others may wait for one of the resources */
export function leanRelease(
  keys: Keys,
  requests: readonly ReleaseRequest[],
  mayWake: boolean,
): LeanCall<ReleaseOutcome> {
  return leanCall<ReleaseRequest, ReleaseOutcome>(keys, requests, {
    name: mayWake ? "releaseAndWake" : "releaseHeld",
    hasQueue: mayWake,
    hasIndex: mayWake,
    areAlike: (a, b) => !mayWake || a.namespace === b.namespace,
    optionsOf: ({ namespace }) => (mayWake ? [keys.channel(namespace)] : []),
    clear: () => RELEASED,
    answered: () => null,
  });
}

/** What a verb asks, and how it is answered. */
interface Verb<Request, Outcome> {
  readonly name: LeanCall<Outcome>["name"];
  /** Whether the script takes the keys of wait queues. */
  readonly hasQueue: boolean;
  /** Whether it takes those of indexes. Default: true. */
  readonly hasIndex?: boolean;
  readonly areAlike: (a: Request, b: Request) => boolean;
  readonly optionsOf: (request: Request) => readonly string[];
  /** The outcome of requests with these options that have no answer. */
  readonly clear: (request: Request, nowUs: number) => Outcome | null;
  /** Returns the outcome of a request that has an answer, and is not left to the rules. */
  readonly answered: (
    request: Request,
    clear: Outcome | null,
    nowUs: number,
    answer: string | Fields,
  ) => Outcome | null;
}

function leanCall<Request extends Grant, Outcome>(
  keys: Keys,
  requests: readonly Request[],
  { name, hasQueue, hasIndex = true, areAlike, optionsOf, clear, answered }: Verb<Request, Outcome>,
): LeanCall<Outcome> {
  const indexes = new Set<string>();
  const places: string[] = [];
  const lists: { readonly first: Request; count: number }[] = [];
  let ids = "";
  for (const request of requests) {
    const index = keys.indexOf(request);
    indexes.add(index);
    places.push(`${index}:${request.resource}`);
    if (hasQueue) places.push(`${index}line:${request.resource}`);
    ids += request.leaseId;
    const last = lists.at(-1);
    if (last && areAlike(last.first, request)) last.count += 1;
    else lists.push({ first: request, count: 1 });
  }
  if (!hasIndex) indexes.clear();
  const options = lists.flatMap(({ first, count }, at) =>
    at === lists.length - 1 ? optionsOf(first) : [...optionsOf(first), `${count}`],
  );
  return {
    name,
    places: [...indexes, ...places],
    args: [...(hasIndex ? [`${indexes.size}`] : []), ids, ...options],
    answersOf(reply) {
      invariant(Array.isArray(reply) && reply.length % 3 === 1, "a reply with the time");
      const answers = reply as unknown as Answers;
      const [nowUs] = answers;
      const outcomes = new Array<Outcome | null>(requests.length);
      let end = 0;
      for (const { first, count } of lists) {
        outcomes.fill(clear(first, nowUs), end, end + count);
        end += count;
      }
      const loaded: (Loaded<Version> | null)[] = [];
      const joined: boolean[] = [];
      for (let from = 1; from < answers.length; from += 3) {
        const at = Number(answers[from]) - 1;
        const what = answers[from + 1] as What;
        const answer = answers[from + 2] as string | Fields;
        const request = requests[at];
        invariant(request, "answers to requests");
        if (what === "replaced" || what === "renewed" || what === "longer") {
          outcomes[at] = answered(request, outcomes[at] ?? null, nowUs, answer);
          continue;
        }
        outcomes[at] = null;
        // Only its load can tell why a request has failed alone.
        if (!Array.isArray(answer)) continue;
        loaded[at] = loadedOf(answer, nowUs);
        joined[at] = what === "joined";
      }
      return { nowMs: nowUs / 1_000, outcomes, loaded, joined };
    },
  };
}

/**
 * The search for an order of one resource's requests that explains every answer.
 *
 * It is that of Wing & Gong with the cache of Lowe: depth first, always a request that had been
 * invoked before any of those left had returned. What was reached before, as the set of decided
 * requests and the state, is not looked at again, nor what allows less than something that was.
 *
 *   c1  ├── acquire ──┤     ├── renew ──┤          may be next: acquire or held, not renew, which
 *   c2      ├── held ──────┤                       was invoked after acquire had returned
 *   c3        ├── release ─────────── ?            no answer: at any time from here on, or never
 *
 * What keeps it short, and loses no order that is right:
 * - a refusal that adds nothing to what is known of the time and the token is decided at once, alone;
 * - no grant is passed over whose token an answer that is left tells, or that such an answer shows;
 * - of two ways to the same answers, that with fewer unanswered requests used up allows more.
 * Mostly an unanswered request matters where nothing else goes on. So a first search tries them only
 * there, with a tenth of the budget; if it finds no order, a second one tries them everywhere. If its budget is used up, others
 * leave out repetitions, which may never have taken effect: an order that they find explains every answer, and that they find
 * none says nothing.
 */
import { grantIdOf } from "../../env/index.js";
import type { HistoryEntry } from "./entry.js";
import {
  type Bounds,
  contains,
  type ModelOptions,
  NOTHING,
  type State,
  step,
  textOf,
} from "./model.js";

export interface Limits extends ModelOptions {
  /** Whether acquire, renew and release may each have taken effect once more, unseen. */
  readonly repeats: boolean;
  /** Steps of the model. */
  readonly budget: number;
}

export interface Found {
  readonly verdict: "linearizable" | "not" | "unknown";
  readonly steps: number;
  /** With the most answers explained that the search came to. */
  readonly deepest: State;
}

const FOREVER = Number.POSITIVE_INFINITY;
const FIRST_SHARE = 0.1;
/** Of one request, in the last searches. */
const FEW_REPEATS = [0, 1];
/** Answers that never go with a change. */
const REFUSALS: ReadonlySet<string> = new Set(["held", "ended", "lost", "notHeld", "otherToken"]);

export function search(history: readonly HistoryEntry[], limits: Limits): Found {
  const firstLimits = { ...limits, budget: limits.budget * FIRST_SHARE };
  const first = new Search(history, firstLimits, { sparing: true }).run();
  if (first.verdict === "linearizable") return first;
  const second = new Search(history, limits, { sparing: false }).run();
  let steps = first.steps + second.steps;
  if (second.verdict === "unknown") {
    for (const mostRepeats of FEW_REPEATS) {
      const found = new Search(history, limits, { sparing: false, mostRepeats }).run();
      steps += found.steps;
      if (found.verdict === "linearizable") return { ...found, steps };
    }
  }
  return { ...second, steps };
}

/** A point of the search: what has been decided, the state, and what may be tried next. */
interface Frame {
  readonly decided: bigint;
  /** How many of those with an answer. */
  readonly answered: number;
  /** The first request with an answer that is left, in the order of invocation. */
  readonly first: number;
  /** When the first of those that are left returns: whatever is decided next took effect by then. */
  readonly untilMs: number;
  /** The smallest token that an answer which is left tells. */
  readonly lowest: number;
  readonly state: State;
  /** Requests that may be decided next, the last one first. */
  readonly candidates: number[];
  /** The one taken last, and the states to which it leads. */
  index: number;
  reached: State[];
  /** Whether a request with an answer could be decided. */
  goesOn: boolean;
}

class Search {
  /** Those with an answer, in the order of invocation, then those without. */
  readonly #all: readonly HistoryEntry[];
  readonly #known: number;
  readonly #bits: readonly bigint[];
  readonly #allKnown: bigint;
  readonly #byToken: readonly { readonly index: number; readonly token: number }[];
  readonly #witnesses: Witnesses;
  readonly #seen = new Map<string, { readonly lost: bigint; readonly end: Bounds }[]>();
  readonly #limits: Limits;
  readonly #sparing: boolean;
  #steps = 0;
  #most = -1;
  #deepest = NOTHING;

  constructor(
    history: readonly HistoryEntry[],
    limits: Limits,
    {
      sparing,
      mostRepeats = Infinity,
    }: { readonly sparing: boolean; readonly mostRepeats?: number },
  ) {
    const inOrder = history
      .filter(({ result }) => result !== "fail")
      .sort((a, b) => a.invokeMs - b.invokeMs);
    const known = inOrder.filter(({ result }) => result === "ok");
    const unknown = inOrder.flatMap((entry) => unseen(entry, limits.repeats, mostRepeats));
    this.#all = [...known, ...unknown];
    this.#known = known.length;
    this.#bits = this.#all.map((_, index) => 1n << BigInt(index));
    this.#allKnown = (1n << BigInt(known.length)) - 1n;
    this.#byToken = known
      .map((entry, index) => ({ index, token: tokenOf(entry) }))
      .sort((a, b) => a.token - b.token);
    this.#witnesses = new Witnesses(this.#all);
    this.#limits = limits;
    this.#sparing = sparing;
  }

  run(): Found {
    const path: Frame[] = [this.#expand(0n, 0, 0, NOTHING)];
    for (let frame = path.at(-1); frame; frame = path.at(-1)) {
      if (frame.answered === this.#known) return this.#found("linearizable");
      if (this.#steps > this.#limits.budget) return this.#found("unknown");
      const state = this.#advance(frame);
      if (!state) {
        path.pop();
        continue;
      }
      const decided = frame.decided | this.#bit(frame.index);
      if (!this.#isNew(decided, state)) continue;
      const answered = frame.answered + (frame.index < this.#known ? 1 : 0);
      path.push(this.#expand(decided, answered, frame.first, state));
    }
    return this.#found("not");
  }

  #expand(decided: bigint, answered: number, from: number, state: State): Frame {
    if (answered > this.#most) [this.#most, this.#deepest] = [answered, state];
    const isLeft = (index: number) => (decided & this.#bit(index)) === 0n;
    let first = from;
    while (first < this.#known && !isLeft(first)) first += 1;
    const lowest = this.#byToken.find(({ index }) => isLeft(index))?.token ?? FOREVER;
    // A request cannot come next if it was invoked after another undecided request had returned.
    let untilMs = FOREVER;
    const overlapping: number[] = [];
    for (let index = first; index < this.#known; index++) {
      if (this.#entry(index).invokeMs > untilMs) break;
      if (!isLeft(index)) continue;
      overlapping.push(index);
      untilMs = Math.min(untilMs, this.#returnMs(index));
    }
    const mayBeNext = (index: number) => this.#entry(index).invokeMs <= untilMs;
    const answers = overlapping.filter(mayBeNext);
    answers.sort((a, b) => this.#returnMs(a) - this.#returnMs(b));
    const progress = { index: 0, reached: [], goesOn: false };
    const frame = { decided, answered, first, untilMs, lowest, state, ...progress };
    for (const index of answers) {
      const reached = this.#free(state, index, untilMs);
      if (reached) return { ...frame, candidates: [], index, reached: [reached] };
    }
    const lost: number[] = [];
    for (let index = this.#known; index < this.#all.length && mayBeNext(index); index++) {
      if (isLeft(index)) lost.push(index);
    }
    // First those with an answer, by the time of that; then those without, the latest first.
    return { ...frame, candidates: [...lost, ...answers.reverse()] };
  }

  /** Where a refusal leads that adds nothing to what is known: whatever comes later goes as well behind it. */
  #free(state: State, index: number, untilMs: number): State | null {
    const entry = this.#entry(index);
    if (!REFUSALS.has(entry.outcome?.status ?? "")) return null;
    const [reached, ...others] = step(state, entry, untilMs, this.#limits);
    if (!reached || others.length > 0) return null;
    // A token that it rules out may be the one that the grant has in the right order.
    const same = textOf(reached) === textOf(state) && contains(reached.end, state.end);
    return same ? reached : null;
  }

  /** The next state to go on from, if any is left. */
  #advance(frame: Frame): State | undefined {
    while (frame.reached.length === 0) {
      const index = frame.candidates.pop();
      if (index === undefined) return undefined;
      const isAnswered = index < this.#known;
      if (!isAnswered && frame.goesOn && this.#sparing) return undefined;
      this.#steps += 1;
      frame.index = index;
      frame.reached = this.#decide(frame, index);
      if (isAnswered && frame.reached.length > 0) frame.goesOn = true;
    }
    return frame.reached.pop();
  }

  #decide({ state, decided, lowest, untilMs }: Frame, index: number): State[] {
    const after = decided | this.#bit(index);
    const isLeft = (other: number) => (after & this.#bit(other)) === 0n;
    const before = state.record?.leaseId;
    return step(state, this.#entry(index), untilMs, this.#limits).filter(({ record }) => {
      if ((record?.token ?? 0) > lowest) return false;
      return !before || record?.leaseId === before || !this.#witnesses.miss(before, isLeft);
    });
  }

  /** Whether more may come of this than of what was reached with the same answers explained. */
  #isNew(decided: bigint, { end, ...state }: State): boolean {
    const lost = decided >> BigInt(this.#known);
    const key = `${(decided & this.#allKnown).toString(32)} ${textOf({ end, ...state })}`;
    const others = this.#seen.get(key) ?? [];
    if (others.length === 0) this.#seen.set(key, others);
    if (others.some((one) => (one.lost & ~lost) === 0n && contains(one.end, end))) return false;
    others.push({ lost, end });
    return true;
  }

  #found(verdict: Found["verdict"]): Found {
    return { verdict, steps: this.#steps, deepest: this.#deepest };
  }

  #entry(index: number): HistoryEntry {
    return this.#all[index] as HistoryEntry;
  }

  #bit(index: number): bigint {
    return this.#bits[index] as bigint;
  }

  #returnMs(index: number): number {
    return this.#entry(index).returnMs ?? FOREVER;
  }
}

/** Which requests show that a grant is on record, and which could put it there. */
class Witnesses {
  readonly #shown = new Map<string, { index: number; returnMs: number }[]>();
  readonly #granting = new Map<string, { index: number; invokeMs: number }[]>();

  constructor(all: readonly HistoryEntry[]) {
    const leaseIds = new Map<string, string>();
    for (const { operation, request } of all) {
      if (operation === "acquire") leaseIds.set(grantIdOf(request.leaseId), request.leaseId);
    }
    for (const [index, entry] of all.entries()) {
      const { operation, request, outcome, invokeMs } = entry;
      const returnMs = entry.returnMs ?? FOREVER;
      if (operation === "acquire" && (!outcome || outcome.status === "acquired")) {
        add(this.#granting, request.leaseId, { index, invokeMs });
      } else if (outcome?.status === "held") {
        add(this.#shown, leaseIds.get(outcome.grantId ?? ""), { index, returnMs });
      } else if ("leaseId" in request && outcome && showsOwn(outcome)) {
        add(this.#shown, request.leaseId, { index, returnMs });
      }
    }
  }

  /** Whether they miss a grant that is off the record: one that is left shows it, none can grant it. */
  miss(leaseId: string, isLeft: (index: number) => boolean): boolean {
    const shown = this.#shown.get(leaseId)?.filter(({ index }) => isLeft(index)) ?? [];
    if (shown.length === 0) return false;
    const granting = this.#granting.get(leaseId)?.filter(({ index }) => isLeft(index)) ?? [];
    return shown.some(({ returnMs }) => granting.every(({ invokeMs }) => invokeMs > returnMs));
  }
}

function add<Item>(lists: Map<string, Item[]>, name: string | undefined, item: Item): void {
  if (name === undefined) return;
  const list = lists.get(name);
  if (list) list.push(item);
  else lists.set(name, [item]);
}

/** Whether only a store answers so that has the grant on record which the request names. */
function showsOwn({
  status,
  reason,
}: {
  readonly status: string;
  readonly reason?: string;
}): boolean {
  if (status === "lost") return reason === "expired" || reason === "revoked";
  return status === "renewed" || status === "released" || status === "ended";
}

function tokenOf({ outcome }: HistoryEntry): number {
  return outcome && "token" in outcome ? outcome.token : FOREVER;
}

/**
 * The sent tries of a request that have no answer, or may exist because the store repeats requests.
 * @param mostRepeats beside the one whose answer is known or missing
 */
function unseen(entry: HistoryEntry, repeats: boolean, mostRepeats: number): HistoryEntry[] {
  const { operation, result, tries } = entry;
  const unheard = result === "unknown" ? 1 : 0;
  const mayRepeat = repeats && operation !== "revoke";
  const repeated = tries === undefined ? (mayRepeat ? 1 - unheard : 0) : tries - 1;
  const count = unheard + Math.min(repeated, mostRepeats);
  return Array.from({ length: count }, () => unanswered(entry, "it may have been repeated"));
}

/** The same request, as far as is known while there is no answer. */
export function unanswered(entry: HistoryEntry, error: string): HistoryEntry {
  return { ...entry, returnMs: null, result: "unknown", outcome: null, error };
}

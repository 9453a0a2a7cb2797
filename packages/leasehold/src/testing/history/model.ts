/**
 * The sequential model of one resource: the rules (lease/rules.ts), decided at a time that the history
 * does not show. A client knows when it sent a request and when the answer arrived. In between, the store
 * read its clock once, decided by that reading, and the decision took effect:
 *
 *             invoke                return
 *   client  ────●─────────────────────●──────▶
 *   store   ────────▲────────▲───────────▲───▶
 *                 clock   effect        end       end - clock: the answer's `remainingMs`
 *
 * So a state holds the record and the bounds of the time at which the grant ends. The rules depend only
 * on whether the clock reading lies before or after that end. A step tries both orders, applies the rules
 * in each, and keeps the states that agree with the outcome:
 *
 *   end <= clock         clock < end                a renewal for longer than what is left extends
 *   expired              live                       the grant, another leaves its end where it is
 *
 * - Expiry is not a step of its own: a clock reading lies on one side of the end or the other. An outcome
 *   that shows the grant alive (acquired, held, renewed, revoked) moves the earliest possible end to its
 *   invocation or later. An outcome that shows it expired moves the latest possible end to its return.
 * - Effects have one order; clock readings need not have the same. A store may read its clock before
 *   it has the record, and commit after that; it may refuse by a record that it read before its clock.
 *   Both are within the request. For a request without an answer, the clock was read before the effect.
 * - The store's clock may drift by `toleranceMs` against that of the history over the length of a
 *   grant. Its origin does not matter: only durations are compared.
 * - Some engines free a grant late, because they detect the end of a session with a delay. There a grant's
 *   end may lie up to `lateMs` after the time in its holder's answer, and a renewal until then succeeds.
 *   With `Infinity` there is no common clock: contenders observe, and each has its own view of whether the
 *   grant has ended. A request that changes nothing then gives no information about the end to others.
 *   But no view may be earlier than the time in the holder's answer.
 * - A token that no answer showed (an acquire without an answer) is unknown, and larger than the last.
 * - Of an outcome `unknown` only the request is known. A request that would change nothing is the same as
 *   one that never took effect.
 */
import { type Capabilities, type LeaseRecord, rules } from "../../lease/index.js";
import type { HistoryEntry } from "./entry.js";

/** Inclusive, in milliseconds of the history's clock. */
export type Bounds = readonly [least: number, most: number];

export interface State {
  /** The times in it are not used. */
  readonly record: LeaseRecord | null;
  /** True if the record has the exact token, false if it has a lower bound. */
  readonly tokenKnown: boolean;
  /** When the grant ends or ended. */
  readonly end: Bounds;
}

const FOREVER = Number.POSITIVE_INFINITY;
const ANY: Bounds = [-FOREVER, FOREVER];
export const NOTHING: State = { record: null, tokenKnown: true, end: ANY };

export interface ModelOptions {
  readonly toleranceMs: number;
  /** The TTLs that the store grants; it may round them up. */
  readonly ttl: Pick<Capabilities["ttl"], "minMs" | "stepMs">;
  /** By how much a grant may outlive the time in its holder's answer. */
  readonly lateMs: number;
}

/** Answers are whole milliseconds, rounded either way. */
const ROUNDING_MS = 1;
/** Fields of an answer that the rules do not decide, and fields that are compared with the bounds. */
const APART: ReadonlySet<string> = new Set(["expiresAt", "ahead", "replaced", "token"]);
const TIMES: ReadonlySet<string> = new Set(["remainingMs", "freeInMs", "ttlMs"]);

/**
 * The states in which the resource may be when this request has been decided as its entry says.
 * @param latestMs when it has taken effect at the latest: those decided after it have returned later
 */
export function step(
  before: State,
  entry: HistoryEntry,
  latestMs: number,
  options: ModelOptions,
): State[] {
  const clock: Bounds = [entry.invokeMs, entry.returnMs ?? latestMs];
  return tokensOf(before, entry).flatMap((state) => {
    const after: State[] = [];
    let unchanged = true;
    for (const region of regionsOf(before.record, entry, clock, options.toleranceMs)) {
      const end = common(state.end, region.end);
      if (!end) continue;
      const next = decide({ ...state, end }, entry, clock, region.at, options);
      unchanged &&= next !== null && !next.changed;
      if (!next) continue;
      // Who only observes may take a grant for alive when another one does no more.
      const observed = !next.changed && options.lateMs === FOREVER;
      after.push(observed ? { ...next.state, end: state.end } : next.state);
    }
    // Decided the same at any time, it tells nothing of the time.
    return unchanged && after.length > 1 ? [state] : after;
  });
}

function common(a: Bounds, b: Bounds): Bounds | null {
  const [least, most] = [Math.max(a[0], b[0]), Math.min(a[1], b[1])];
  return least <= most ? [least, most] : null;
}

/** Whether all that `inner` allows is allowed by `outer`. */
export function contains(outer: Bounds, inner: Bounds): boolean {
  return outer[0] <= inner[0] && inner[1] <= outer[1];
}

function sum(a: Bounds, b: Bounds): Bounds {
  return [a[0] + b[0], a[1] + b[1]];
}

/** An unknown token is the expected one, or another. */
function tokensOf(state: State, { operation, request }: HistoryEntry): State[] {
  const { record } = state;
  const expected = operation === "revoke" ? request.expectedToken : undefined;
  if (!record || state.tokenKnown || expected === undefined) return [state];
  if (expected < record.token) return [state];
  const other = record.token === expected ? expected + 1 : record.token;
  return [
    { ...state, record: { ...record, token: expected }, tokenKnown: true },
    { ...state, record: { ...record, token: other } },
  ];
}

/** An order of clock and end that the rules may tell apart, and an example: the end, at clock 0. */
interface Region {
  readonly end: Bounds;
  readonly at: number;
}

function regionsOf(
  record: LeaseRecord | null,
  entry: HistoryEntry,
  clock: Bounds,
  toleranceMs: number,
): Region[] {
  // No time matters any more.
  if (!record || record.ended === "released") return [{ end: ANY, at: 0 }];
  const left = (least: number, most: number) =>
    sum(clock, [least - toleranceMs, most + toleranceMs]);
  const expired: Region = { end: [-FOREVER, left(0, 0)[1]], at: 0 };
  if (entry.operation !== "renew") return [expired, { end: left(0, FOREVER), at: 1 }];
  const { ttlMs } = entry.request;
  return [
    expired,
    { end: left(0, ttlMs), at: ttlMs / 2 },
    { end: left(ttlMs, FOREVER), at: ttlMs * 2 },
  ];
}

/** What the rules say in this region, if it agrees with the entry. */
function decide(
  { record: last, tokenKnown, end }: State,
  entry: HistoryEntry,
  clock: Bounds,
  at: number,
  { toleranceMs, ttl, lateMs }: ModelOptions,
): { readonly state: State; readonly changed: boolean } | null {
  const before = last && { ...last, expiresAtMs: at };
  const answer: Answer | null = entry.outcome;
  const answeredToken = answer?.token;
  const { record, outcome } = applyRule(before, entry, (least) =>
    answeredToken !== undefined && answeredToken > least ? answeredToken : least + 1,
  );
  if (!answer && record === before) return null;
  if (answer && !agree(outcome, answer)) return null;

  const granted = record !== null && record.leaseId !== before?.leaseId;
  let known = granted ? answeredToken !== undefined : tokenKnown;
  let token = record?.token ?? 0;
  if (answeredToken !== undefined) {
    if (known ? answeredToken !== token : answeredToken < token) return null;
    [token, known] = [answeredToken, true];
  }

  let now: Bounds | null = end;
  if (record && record !== before) {
    if (record.ended === "released") {
      now = ANY;
    } else if (record.expiresAtMs !== at) {
      const asked = record.expiresAtMs;
      const longest =
        asked === 0 ? 0 : Math.ceil(Math.max(asked, ttl.minMs) / ttl.stepMs) * ttl.stepMs;
      now = sum(clock, [asked - toleranceMs, longest + toleranceMs + lateMs]);
    }
  }
  const remaining = timesOf(answer, lateMs);
  if (typeof remaining === "number") {
    const slack = ROUNDING_MS + toleranceMs;
    now = common(now, sum(clock, [remaining - slack, remaining + slack + lateMs]));
  }
  if (!now) return null;
  // A time or a token in the answer narrows the state.
  const changed = record !== before || typeof remaining === "number" || answeredToken !== undefined;
  return {
    state: { record: record && { ...record, token }, tokenKnown: known, end: now },
    changed,
  };
}

/**
 * Where grants end late, contenders can only estimate the end. Without a bound (`Infinity`), an operator
 * who revokes can only estimate it too. Estimates are not compared.
 */
function timesOf(answer: Answer | null, lateMs: number): number | null | undefined {
  if (lateMs > 0 && answer?.status === "held") return undefined;
  if (lateMs === FOREVER && answer?.status === "revoked") return undefined;
  return answer?.remainingMs ?? answer?.freeInMs;
}

/** What outcomes may have, whichever operation they are of. */
interface Answer {
  readonly status: string;
  readonly token?: number;
  readonly remainingMs?: number | null;
  readonly freeInMs?: number;
}

function applyRule(
  record: LeaseRecord | null,
  entry: HistoryEntry,
  token: (last: number) => number,
): { readonly record: LeaseRecord | null; readonly outcome: object } {
  switch (entry.operation) {
    case "acquire":
      return rules.acquire(record, entry.request, 0, token);
    case "renew":
      return rules.renew(record, entry.request, 0);
    case "release":
      return rules.release(record, entry.request, 0);
    case "revoke":
      return rules.revoke(record, entry.request, 0);
  }
}

/** Whether the answer says what the rules do, but for times and tokens. An engine may know less. */
function agree(decided: object, answer: object): boolean {
  const facts = new Map(Object.entries(decided));
  for (const [name, value] of Object.entries(answer)) {
    if (APART.has(name) || TIMES.has(name)) continue;
    if (name === "grantId" && value === null) continue;
    if (facts.get(name) !== value) return false;
  }
  return true;
}

/** Two states with the same text differ in their ends only. */
export function textOf({ record, tokenKnown }: State): string {
  if (!record) return "";
  return `${record.leaseId} ${tokenKnown ? "" : ">="}${record.token} ${record.ended ?? ""}`;
}

/** As a person reads it. */
export function describeState({ record, tokenKnown, end }: State): string {
  if (!record) return "no grant yet";
  const token = `token ${tokenKnown ? "" : "at least "}${record.token}`;
  const name = `grant ${record.leaseId.slice(0, 8)} of ${record.holder}, ${token}`;
  if (record.ended === "released") return `${name}, released`;
  return `${name}, ${record.ended ?? "not ended"}, with its end at ${end.map((ms) => ms.toFixed(1)).join("..")}`;
}

/** What must hold at any time while a program of an election runs, and what its run knows. */
import type { Elector, Term } from "leasehold";
import type { Granted, LeaseBook } from "./lease-book.js";
import { type Client, type Site, SLICE_MS } from "./site.js";

export const NAME = "cluster";
export const TTL_MS = 1_000;
export const GRACE_MS = 300;
export const HANDOVER_MS = 600;
const RETRY_MS = 400;
export const PROMPT_MS = 8;
const NOTICED_MS = PROMPT_MS + 2 * SLICE_MS;
/** A candidate that has stood aside, or whose work has returned, campaigns again within this time. */
const ASIDE_MS = HANDOVER_MS + RETRY_MS * 1.2 + NOTICED_MS;
/** The longest pause between two polls of an observer while there is no leader, with its jitter. */
export const OBSERVED_MS = 1_100 + NOTICED_MS;
/** What runIfLeader runs stops after this time. */
export const STOPPING_MS = 60;
export const WRITING_MS = 200;
export const FAILURE = new Error("the work throws");

/** The work of a term. */
export interface Working {
  readonly term: Term;
  readonly granted: Granted;
  readonly reasons: string[];
  /** Since when it is asked to stop. */
  askedAtMs: number;
  end(how: "return" | "throw" | "stop"): void;
}

export class Candidate {
  elector: Elector;
  leaving = new AbortController();
  lead: Promise<void> | undefined;
  stoppingMs = 0;
  /** The term under which runIfLeader runs work. */
  writing: Granted | undefined;
  /** When its work threw: the call rejects with that. */
  threwAtMs = Infinity;
  working: Working | undefined;
  /** Since when it could lead, as seen after each slice. */
  readySinceMs = Infinity;

  constructor(readonly client: Client) {
    this.elector = client.leasehold.elector(NAME, {
      ttlMs: TTL_MS,
      graceMs: GRACE_MS,
      handoverMs: HANDOVER_MS,
      retryDelayMs: RETRY_MS,
    });
  }
}

/** What the run of a program of an election knows. */
export interface ElectionState {
  readonly site: Site;
  readonly book: LeaseBook;
  readonly candidates: readonly Candidate[];
  readonly observing: AbortController;
  observed: { readonly leader: string | null; readonly token: number | null } | undefined;
  leader: { readonly granted: Granted | undefined; readonly sinceMs: number };
}

export function lookAtElection(run: ElectionState): void {
  const { site, book } = run;
  const running = run.candidates.filter(({ client }) => client.isRunning);
  const leading = running.filter(({ elector }) => elector.term !== undefined);
  const isOverlapped = leading.some(({ working }) => working?.granted.isOverlapped);
  site.expect(leading.length <= 1 || isOverlapped, "two candidates lead");
  for (const candidate of running) lookAt(run, candidate);
  lookForLeader(run, running);
  const granted = book.current(NAME);
  if (granted !== run.leader.granted) run.leader = { granted, sinceMs: site.nowMs };
  const isSettled = site.nowMs > run.leader.sinceMs + OBSERVED_MS && granted?.ended === null;
  const isKnown = run.observed?.token === granted?.token;
  const isObserved = !isSettled || isKnown || run.observing.signal.aborted;
  site.expect(isObserved, `the observer does not know that ${granted?.holder} leads`);
}

function lookAt(
  run: ElectionState,
  { client, elector, working, lead, threwAtMs, writing }: Candidate,
): void {
  const { site, book } = run;
  const isLateError =
    site.nowMs > threwAtMs + STOPPING_MS + NOTICED_MS && !client.isFaultySince(threwAtMs);
  site.expect(!isLateError, `the work of ${client.name} threw, and its candidacy goes on`);
  const isOpen = writing?.ended !== "released";
  site.expect(isOpen, `${client.name} releases its term, and runIfLeader goes on`);
  const { term, state } = elector;
  const named = `the term of ${client.name}`;
  site.expect(state === "leading" || term === undefined, `${named} is led while ${state}`);
  if (term) {
    site.expect(working !== undefined, `${named} has work`);
    site.expect(working?.term.token === term.token, `${named} is the one of its work`);
  }
  if (!working) return;
  const { granted, reasons } = working;
  const isAlive = working.term.checkAlive();
  // Overdue work is not renewed.
  const isOverdue = site.nowMs > working.askedAtMs + GRACE_MS - SLICE_MS;
  if (isAlive) {
    site.expect(site.nowMs < granted.trustedUntilMs, `${named} is trusted for too long`);
    const isOwn = book.current(NAME) === granted || granted.isOverlapped;
    site.expect(isOwn, `${named} is alive, and the store's is not`);
    const isLate = site.nowMs > granted.endedAtMs + (TTL_MS / 3) * 1.1 + NOTICED_MS;
    site.expect(
      !isLate || isOverdue || client.isFaulty,
      `${named} has ended, and its leader does not know`,
    );
  } else {
    site.expect(working.term.signal.aborted, `${named} is over, and its signal has not aborted`);
    const [reason] = reasons;
    const isFaulty = client.isFaultySince(granted.confirmedAtMs) || isOverdue;
    site.expect(
      reason !== "expired" || isFaulty || granted.ended !== null,
      `${named} was not renewed`,
    );
  }
  const isEnded = granted.ended === "released" && granted.holder === client.name;
  site.expect(!isEnded, `${named} is released before its work has ended`);
  const isAsked = working.askedAtMs < Infinity;
  site.expect(!isAsked || state !== "leading", `${named} is led after its signal has aborted`);
  site.expect(lead !== undefined || isAsked, `${named} outlives its candidacy`);
}

/** While the name is free, a candidate that waits becomes the leader soon. */
function lookForLeader(run: ElectionState, running: readonly Candidate[]): void {
  const { site, book } = run;
  for (const candidate of running) {
    const { client, elector, lead, leaving } = candidate;
    const isWaiting = lead !== undefined && elector.state === "waiting" && !leaving.signal.aborted;
    const isReady = isWaiting && !client.isFaulty && client.closing === undefined;
    if (!isReady) candidate.readySinceMs = Infinity;
    else if (candidate.readySinceMs === Infinity) candidate.readySinceMs = site.nowMs;
    const freeAtMs = book.freeFor(NAME, client.name);
    const sinceMs = Math.max(freeAtMs, candidate.readySinceMs);
    // Waiters that are ahead may be dead, and no store notifies of an expiry.
    const isLate = site.nowMs > sinceMs + ASIDE_MS + 500;
    site.expect(!isLate, `${client.name} waits, and none leads`);
  }
}

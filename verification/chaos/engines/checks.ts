/** What must be true of a run. Each check answers what is wrong; nothing, if all is well. */
import type { GrantRecord, Journal } from "./journal.js";
import type { Breach } from "./registers.js";
import type { Mark, Site } from "./site.js";
import type { Witness } from "./witness.js";

/** The kernel's clock, by which holders with another one go, has steps of 10 ms. */
const STEP_MS = 10;

/** Of one resource, in the order in which they were granted: a token is of one grant, and they grow. */
export function checkTokens(journal: Journal): string[] {
  const wrong: string[] = [];
  for (const [resource, grants] of journal.byResource) {
    const sent = [...grants].sort((a, b) => a.sentMs - b.sentMs);
    const received = [...grants].sort((a, b) => a.receivedMs - b.receivedMs);
    let largest = 0;
    let at = 0;
    for (const { sentMs, token, by } of sent) {
      // Those that had been received before this one was asked for.
      for (; received[at] && received[at]!.receivedMs + STEP_MS < sentMs; at += 1) {
        largest = Math.max(largest, received[at]!.token);
      }
      if (token <= largest) wrong.push(`${resource}: ${by} got ${token} after ${largest}`);
    }
    if (new Set(grants.map(({ token }) => token)).size < grants.length) {
      wrong.push(`${resource}: a token was granted twice`);
    }
  }
  return wrong;
}

/** Each accepted write belongs to a grant in the journal. */
export function checkWrites({ witness }: Site): string[] {
  const { journal, registers } = witness;
  return [...registers.registers].flatMap(([resource, { accepted }]) =>
    accepted
      .filter(({ grant, token }) => journal.grants.get(grant)?.token !== token)
      .map(({ token }) => `${resource}: ${token} wrote, but no holder reported its grant`),
  );
}

/**
 * Counts grants whose write the fence accepted after a write of a later grant. The order of grants comes
 * from their request and answer times, because the fence itself relies on the tokens.
 */
export function countStaleTaken({ journal, registers }: Pick<Witness, "journal" | "registers">) {
  const grantOf = ({ grant }: { readonly grant: string }) => journal.grants.get(grant);
  return [...registers.registers.values()]
    .flatMap(({ accepted }) => accepted.map((older) => ({ older, accepted })))
    .filter(({ older, accepted }) => {
      const answeredMs = grantOf(older)?.receivedMs ?? Infinity;
      return accepted.some(
        (newer) =>
          newer.atMs < older.lastMs && (grantOf(newer)?.sentMs ?? 0) > answeredMs + STEP_MS,
      );
    }).length;
}

/** Finds holders that still trusted a lease after the next holder had received its grant. */
export function findOverlaps(journal: Journal): Breach[] {
  return [...journal.byResource.values()].flatMap((grants) => {
    const byToken = [...grants].sort((a, b) => a.token - b.token);
    let next: GrantRecord | undefined;
    return byToken.reverse().flatMap((grant) => {
      const { resource, token, by, trustedMs } = grant;
      const after = next;
      if (!next || grant.receivedMs < next.receivedMs) next = grant;
      if (!after || trustedMs <= after.receivedMs + STEP_MS) return [];
      const what = `trusted when ${after.by} had been granted ${after.token}`;
      return [{ resource, token, by, atMs: trustedMs, what }];
    });
  });
}

/** Whether a clock was wrong by which that can be explained. */
export function isMarked(marks: readonly Mark[], { by, atMs }: Breach): boolean {
  return marks.some(
    (mark) => (mark.by === null || mark.by === by) && atMs >= mark.fromMs && atMs <= mark.toMs,
  );
}

/** Counts grants that expired: the next grant was made before the holder sent a release. */
export function countExpiries(journal: Journal): number {
  return [...journal.byResource.values()]
    .flatMap((grants) => [...grants].sort((a, b) => a.token - b.token))
    .filter((grant, at, all) => {
      const next = all[at + 1];
      if (!next || next.resource !== grant.resource) return false;
      return grant.releasingMs === null || grant.releasingMs > next.receivedMs;
    }).length;
}

export interface Takeover {
  readonly resource: string;
  readonly kind: string;
  /** From the last renewal that counts, or the acquire, to the next holder's answer. */
  readonly ms: number;
  /** What of it the line may have cost, because others had died in it shortly before. */
  readonly deadWaitersMs: number;
  /** For how long all had been well when the holder was lost. */
  readonly calmMs: number;
}

/**
 * Of what was held by those who were killed or stopped while all else was well. A renewal that was
 * under way then has counted, as far as anybody knows.
 */
export function findTakeovers({ witness, losses, slots, settings }: Site): Takeover[] {
  const { journal } = witness;
  const { ticketMs, costMs } = settings.deadWaiter;
  const deathsMs = slots.flatMap((slot) => slot.deathsMs);
  const deadBefore = (untilMs: number) =>
    deathsMs.filter((atMs) => atMs < untilMs - 1 && atMs > untilMs - ticketMs).length;
  return losses.flatMap(({ kind, by, atMs, calmMs }) =>
    [...journal.grants.values()].flatMap((grant) => {
      const { resource, releasingMs, receivedMs, lastSentMs, pendingMs } = grant;
      const next = journal.next(grant);
      if (grant.by !== by || receivedMs > atMs || !next || next.receivedMs < atMs) return [];
      if (releasingMs !== null && releasingMs < next.receivedMs) return [];
      const fromMs = Math.max(lastSentMs, pendingMs ?? 0);
      if (fromMs > atMs) return [];
      const deadWaitersMs = costMs * deadBefore(atMs);
      return [{ resource, kind, ms: next.receivedMs - fromMs, deadWaitersMs, calmMs }];
    }),
  );
}

/**
 * How long a holder may trust its grant.
 *
 *   holder   send ──────────────── answer ───────────── trustedUntil
 *              \                  /                          │ margin + drift
 *   store       └── decides: remainingMs ───────────────────────────── expiresAt: may grant anew
 *
 * Trust counts from *before the call was sent*: the store decided later than that, so it cannot
 * grant anew earlier than send + remainingMs, whatever the answer took. The holder's clock may run
 * slow against the store's, so the duration is shortened by `driftRatio`; `marginMs` covers the
 * step between a check and what it protects. (River's trustedUntil; the DynamoDB lock client takes
 * its timestamp before the request too.)
 */
import type { Clock } from "../env/index.js";

export interface TrustTerms {
  readonly driftRatio: number;
  readonly marginMs: number;
}

/** Both clocks, read at one moment before a call. */
export interface Instant {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/**
 * The holder's own stop point. A suspend stops the monotonic clock but not the wall clock, so what the wall clock has
 * gained on the monotonic one counts as time that has passed: it can only shorten trust.
 */
export interface Trust {
  untilMonotonicMs: number;
  /** How far the wall clock was ahead of the monotonic one when trust began, or after it was last set back. */
  aheadMs: number;
  /** The same, when it was last read. */
  readAheadMs: number;
}

/** Less is how exactly two clocks are read one after the other. */
const SET_BACK_MS = 10;

export function instant(clock: Clock): Instant {
  return { monotonicMs: clock.monotonic(), wallMs: clock.wall() };
}

/** The instant that is `ms` later by another clock, which may run fast against this one. */
export function later({ monotonicMs, wallMs }: Instant, ms: number, driftRatio: number): Instant {
  const laterMs = ms * (1 - driftRatio);
  return { monotonicMs: monotonicMs + laterMs, wallMs: wallMs + laterMs };
}

export function trustFrom(sent: Instant, remainingMs: number, terms: TrustTerms): Trust {
  const durationMs = remainingMs * (1 - terms.driftRatio) - terms.marginMs;
  const aheadMs = sent.wallMs - sent.monotonicMs;
  return { untilMonotonicMs: sent.monotonicMs + durationMs, aheadMs, readAheadMs: aheadMs };
}

/** The remaining trust; zero or less once it has ended. Heeds a wall clock that was set back since the last read. */
export function trustLeftMs(trust: Trust, clock: Clock): number {
  const monotonicMs = clock.monotonic();
  const aheadMs = clock.wall() - monotonicMs;
  if (aheadMs < trust.readAheadMs - SET_BACK_MS) {
    // Counted anew from here: otherwise a clock that was set back by an hour would not notice a suspend of a minute.
    trust.untilMonotonicMs -= gainedMs(trust, trust.readAheadMs);
    trust.aheadMs = aheadMs;
  }
  trust.readAheadMs = aheadMs;
  return trust.untilMonotonicMs - monotonicMs - gainedMs(trust, aheadMs);
}

function gainedMs(trust: Trust, aheadMs: number): number {
  return Math.max(0, aheadMs - trust.aheadMs);
}

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

/** The holder's own stop point, on both of its clocks. */
export interface Trust {
  readonly untilMonotonicMs: number;
  /** A suspend stops the monotonic clock but not this one; it can only shorten trust. */
  readonly untilWallMs: number;
}

export function instant(clock: Clock): Instant {
  return { monotonicMs: clock.monotonic(), wallMs: clock.wall() };
}

export function trustFrom(sent: Instant, remainingMs: number, terms: TrustTerms): Trust {
  const durationMs = remainingMs * (1 - terms.driftRatio) - terms.marginMs;
  return {
    untilMonotonicMs: sent.monotonicMs + durationMs,
    untilWallMs: sent.wallMs + durationMs,
  };
}

/** The remaining trust by the clock that leaves less; zero or less once trust has ended. */
export function trustLeftMs(trust: Trust, clock: Clock): number {
  return Math.min(trust.untilMonotonicMs - clock.monotonic(), trust.untilWallMs - clock.wall());
}

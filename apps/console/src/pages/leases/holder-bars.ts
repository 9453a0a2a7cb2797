/** The grants of a resource as bars on a time axis. */
import type { GrantRecord } from "leasehold/internal/wire";

export interface HolderBar {
  readonly grant: GrantRecord;
  /** Null: the store reports no times, so there is no bar. */
  readonly startMs: number | null;
  /** Now, if the grant is live. */
  readonly endMs: number;
  /** Until when the grant blocks others, unless it is renewed; null: it has ended. */
  readonly untilMs: number | null;
  /** How long the resource was free before; null: unknown. At least 0, although clocks may differ. */
  readonly vacantMs: number | null;
  /** Why it ended, as a clause; null: it is live. */
  readonly ending: string | null;
}

/**
 * @param grants newest first
 * @returns in the same order
 */
export function holderBars(grants: readonly GrantRecord[], nowMs: number): readonly HolderBar[] {
  return grants.map((grant, index) => {
    const startMs = parsed(grant.grantedAt);
    const before = grants[index + 1];
    const previousEndMs = before ? endOf(before, grant, nowMs) : null;
    return {
      grant,
      startMs,
      endMs: endOf(grant, grants[index - 1], nowMs) ?? startMs ?? nowMs,
      untilMs: blocksUntilMs(grant, nowMs),
      vacantMs:
        startMs === null || previousEndMs === null ? null : Math.max(0, startMs - previousEndMs),
      ending: endingOf(grant, grants[index - 1], nowMs),
    };
  });
}

function endOf(grant: GrantRecord, next: GrantRecord | undefined, nowMs: number): number | null {
  if (blocksUntilMs(grant, nowMs) !== null) return nowMs;
  // Since the answer of the server, the grant may have ended at its expiry.
  const ended = parsed(grant.endedAt ?? grant.expiresAt);
  return ended ?? parsed(next?.grantedAt ?? null);
}

function endingOf(grant: GrantRecord, next: GrantRecord | undefined, nowMs: number) {
  switch (grant.state) {
    case "live":
      return null;
    case "released":
      return "released by its holder";
    case "revoked":
      return blocksUntilMs(grant, nowMs) === null || next
        ? "revoked by an operator"
        : "revoked by an operator, blocked until its expiry";
    case "expired":
      return next ? `expired, then acquired by ${next.holder}` : "expired: not renewed in time";
  }
}

/** Until when a live grant, or one revoked but not freed, blocks others. Null: the resource is free. */
export function blocksUntilMs(
  { state, expiresAt, freeInMs }: Pick<GrantRecord, "state" | "expiresAt" | "freeInMs">,
  nowMs: number,
): number | null {
  const untilMs = parsed(expiresAt);
  if (state === "live") return untilMs ?? nowMs;
  if (freeInMs === undefined) return null;
  // A store without a clock reports no expiry.
  if (untilMs === null) return nowMs + freeInMs;
  return untilMs > nowMs ? untilMs : null;
}

/** The server's clock, estimated from its last response: all times of grants are by that clock. */
export function serverNowMs(
  grants: readonly GrantRecord[],
  answeredAtMs: number,
  nowMs: number,
): number {
  const leftOf = ({ remainingMs, freeInMs = 0 }: GrantRecord) => Math.max(remainingMs, freeInMs);
  const running = grants.find((grant) => leftOf(grant) > 0 && grant.expiresAt !== null);
  const untilMs = parsed(running?.expiresAt ?? null);
  if (!running || untilMs === null) return nowMs;
  return untilMs - leftOf(running) + (nowMs - answeredAtMs);
}

export interface Axis {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The remaining time of a live grant takes at most this share of the axis. */
const LARGEST_REMAINING_SHARE = 0.2;

/** An axis that fits all bars, at least a second long. */
export function axisOf(bars: readonly HolderBar[], nowMs: number, spanMs: number | null): Axis {
  const running = bars.find(({ untilMs }) => untilMs !== null);
  const endMs = Math.max(
    ...bars.map((bar) => bar.endMs),
    running || spanMs !== null ? nowMs : -Infinity,
  );
  const starts = bars.flatMap(({ startMs }) => startMs ?? []);
  const startMs = spanMs === null ? Math.min(...starts, endMs) : nowMs - spanMs;
  const fromMs = Math.min(startMs, endMs - 1_000);
  const leftMs = Math.min(
    (running?.untilMs ?? endMs) - endMs,
    (endMs - fromMs) * LARGEST_REMAINING_SHARE,
  );
  return { fromMs, toMs: endMs + Math.max(0, leftMs) };
}

/** From 0 to 100, within the axis. */
export function percentOf({ fromMs, toMs }: Axis, atMs: number): number {
  return Math.max(0, Math.min(100, ((atMs - fromMs) / (toMs - fromMs)) * 100));
}

const STEPS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400,
];

/** Ticks at whole steps of time within the axis, at most `most`. */
export function ticksOf({ fromMs, toMs }: Axis, most: number): readonly number[] {
  const day = 86_400;
  const wantedS = (toMs - fromMs) / 1_000 / most;
  const stepS = STEPS_S.find((step) => step >= wantedS) ?? Math.ceil(wantedS / day) * day;
  // Whole hours and days in the reader's time zone.
  const zoneMs = new Date(fromMs).getTimezoneOffset() * -60_000;
  const stepMs = stepS * 1_000;
  const first = Math.ceil((fromMs + zoneMs) / stepMs) * stepMs - zoneMs;
  const count = Math.max(0, Math.floor((toMs - first) / stepMs) + 1);
  return Array.from({ length: count }, (_, index) => first + index * stepMs);
}

function parsed(at: string | null): number | null {
  return at === null ? null : Date.parse(at);
}

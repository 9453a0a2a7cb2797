/** The state and the remaining time of a lease, for lists and pages. */
import { Badge, durationText, type Tone } from "leasehold-ui";
import { useNow } from "../../ui/time.js";
import type { LeaseState } from "./lease-search.js";

const TONES: Readonly<Record<LeaseState, Tone>> = {
  live: "ok",
  expired: "warn",
  released: "plain",
  revoked: "danger",
};

export function StateBadge({ state }: { readonly state: LeaseState }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}

interface RemainingTime {
  readonly remainingMs: number;
  readonly answeredAtMs: number;
}

/** When a revoked lease stops excluding others. */
export function FreeIn({
  freeInMs,
  answeredAtMs,
}: {
  readonly freeInMs: number;
  readonly answeredAtMs: number;
}) {
  return (
    <span className="whitespace-nowrap">
      free in <Remaining remainingMs={freeInMs} answeredAtMs={answeredAtMs} />
    </span>
  );
}

/** Counts the remaining time down to 0. A renewal can extend it at any moment. */
export function Remaining({ remainingMs, answeredAtMs }: RemainingTime) {
  const leftMs = Math.max(0, remainingMs - (useNow() - answeredAtMs));
  return (
    <span className="tabular whitespace-nowrap">
      {leftMs < 10_000 ? `${(leftMs / 1_000).toFixed(0)} s` : durationText(leftMs)}
    </span>
  );
}

/** What lists and pages of leases show alike. */
import { Badge, type Tone } from "../../ui/badge.js";
import { durationText, useNow } from "../../ui/time.js";
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

interface Term {
  readonly remainingMs: number;
  readonly answeredAtMs: number;
}

/** What is left of a term, counted down; it may be renewed any time, so it stops at 0. */
export function Remaining({ remainingMs, answeredAtMs }: Term) {
  const leftMs = Math.max(0, remainingMs - (useNow() - answeredAtMs));
  return (
    <span className="tabular whitespace-nowrap">
      {leftMs < 10_000 ? `${(leftMs / 1_000).toFixed(0)} s` : durationText(leftMs)}
    </span>
  );
}

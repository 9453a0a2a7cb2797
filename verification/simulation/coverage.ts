/** What a long campaign must have seen: otherwise it proves less than it says. */
import { FAULT_NAMES } from "./faults.js";

/** Kinds of faults: those that begin at some time, and those that happen to single messages. */
export const FAULT_KINDS: readonly string[] = [
  ...FAULT_NAMES,
  "message lost",
  "message late",
  "message repeated",
  "message cut off",
];

/** Branches that only a fault leads to. */
const RARE_BRANCHES = [
  "taken over after expiry",
  "lost while working",
  "stale write refused",
  "revoked now",
  "revoked at expiry",
  "trusted although revoked now",
  "trust outlived the grant",
  "late repetition granted without a holder",
  "repeated completion answered",
  "late completion refused: expired",
  "late completion refused: taken",
  "LEASE_LOST (unknown)",
  "LEASE_UNAVAILABLE (none)",
  "STORE_UNAVAILABLE (none)",
  "STORE_UNAVAILABLE (unknown)",
  "tryRun found it held",
  "Lease.acquire found it held",
  "the work ended by itself",
  "a leader's work ended by itself",
  "a leader resigned",
  "NOT_LEADER (none)",
  "seed repeated",
] as const;

export const EXPECTED: readonly string[] = [...FAULT_KINDS, ...RARE_BRANCHES];

/** Figures that must not be zero: late writers that only the fence kept out, overlaps of trust, ends by time. */
export const EXPECTED_FIGURES: readonly string[] = ["unfenced", "overlaps", "expiries"];

export function missing(
  counts: Readonly<Record<string, number>>,
  expected: readonly string[],
): string[] {
  return expected.filter((name) => !counts[name]);
}

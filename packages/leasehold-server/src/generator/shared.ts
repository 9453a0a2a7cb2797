/** What the server, its command line and the console share of the generator. */
import { AUDIT_ACTIONS } from "leasehold/internal";

/** The holder of this resource generates. */
export const GENERATOR_RESOURCE = "generator";

/** The actions that the audit may name. */
export const AUDITED_ACTIONS: readonly string[] = [
  ...AUDIT_ACTIONS,
  "generator.start",
  "generator.stop",
  "generator.rate",
];

export interface GeneratorStatus {
  /** STARTED: it is wanted, and a live holder of its lease generates tasks. */
  readonly status: "STARTED" | "STOPPED";
  /** Whether it is wanted. */
  readonly running: boolean;
  readonly ratePerSecond: number;
  readonly holder: string | null;
  readonly fencingToken: number | null;
  readonly remainingMs: number | null;
}

import type * as leases from "../lease/index.js";

/** A request that the store did not carry out (`no`), or may have carried out (`maybe`). */
export interface Failed {
  readonly status: "failed";
  readonly applied: "no" | "maybe";
  readonly retryable: boolean;
  readonly error: { readonly code: leases.ErrorCode; readonly message: string };
}

/** An outcome of a port as it travels: the same, except that the error of a failure is plain data. */
export type OutcomeOf<PortOutcome> = Exclude<PortOutcome, leases.Failed> | Failed;

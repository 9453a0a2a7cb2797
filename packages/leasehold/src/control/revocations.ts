/** Revocations that two operators must agree on. A server keeps each request as an entry of the audit. */
import type { RevokeRequest } from "../core/index.js";

/** A revocation that takes effect when a second operator confirms it. */
export interface RequestedRevocation {
  /** The number of its entry in the audit. */
  readonly id: number;
  readonly resource: string;
  /** Of the grant that it is about, like the token. No other grant is revoked. */
  readonly holder: string;
  readonly token: number;
  readonly free: RevokeRequest["free"];
  /** The actor, who cannot confirm it. */
  readonly requestedBy: string;
  /** Who that actor claims to be; null: it claims nothing. */
  readonly claimedActor: string | null;
  readonly reason: string | null;
  readonly requestedAt: string;
  /** From then on it cannot be confirmed. */
  readonly confirmBefore: string;
}

/** What the second operator confirms: token and mode must be as requested. */
export interface ConfirmRequest extends Pick<RequestedRevocation, "token" | "free"> {
  readonly reason: string;
}

/** The revocation has taken effect. */
export interface ConfirmedRevocation extends Pick<RequestedRevocation, "resource" | "token"> {
  readonly status: "revoked";
  readonly freeInMs: number;
}

/** Formats a grant for scripts: as JSON, or as lines that a shell evaluates. */
import { quoted } from "./shell.js";

export interface Granted {
  readonly resource: string;
  /** In wire format, which includes the resource. A secret. */
  readonly leaseId: string;
  readonly token: number | null;
  /** How long the caller may rely on the lease, from now on. */
  readonly remainingMs: number;
}

/** Returns `export` lines, so that `renew`, `release` and other commands of the script see the values. */
export function shellLines({ resource, leaseId, token, remainingMs }: Granted): string {
  return [
    `export LEASE_RESOURCE=${quoted(resource)}`,
    `export LEASE_ID=${quoted(leaseId)}`,
    `export LEASE_TOKEN=${token ?? ""}`,
    `export LEASE_REMAINING_MS=${remainingMs}`,
  ].join("\n");
}

/** How scripts are told of a grant: as JSON, or as lines that a shell evaluates. */
export interface Granted {
  readonly resource: string;
  /** As it travels: it names its resource too. A secret. */
  readonly leaseId: string;
  readonly token: number | null;
  /** How long the caller may trust in it, from now on. */
  readonly remainingMs: number;
}

/** `export` lines: what is started next sees them, and so do `renew` and `release`. */
export function shellLines({ resource, leaseId, token, remainingMs }: Granted): string {
  return [
    `export LEASE_RESOURCE=${quoted(resource)}`,
    `export LEASE_ID=${quoted(leaseId)}`,
    `export LEASE_TOKEN=${token ?? ""}`,
    `export LEASE_REMAINING_MS=${remainingMs}`,
  ].join("\n");
}

function quoted(text: string): string {
  return /^[\w./:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

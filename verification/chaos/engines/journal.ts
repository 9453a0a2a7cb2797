/** A grant that a holder has received, and the holder's later calls about it with their outcomes. */
export interface GrantRecord {
  readonly resource: string;
  readonly grant: string;
  readonly token: number;
  /** The process, by name and incarnation. */
  readonly by: string;
  readonly sentMs: number;
  readonly receivedMs: number;
  /** When the acquire or the last renewal was sent that the store has confirmed. */
  lastSentMs: number;
  /** When a renewal was sent that has not been answered yet. */
  pendingMs: number | null;
  releasingMs: number | null;
  /** When a renewal was refused. */
  refused: boolean;
  /** The latest time after which its holder still trusted it. */
  trustedMs: number;
}

export class Journal {
  readonly grants = new Map<string, GrantRecord>();
  readonly byResource = new Map<string, GrantRecord[]>();
  readonly #watching = new Set<() => void>();

  granted(
    grant: Pick<GrantRecord, "resource" | "grant" | "token" | "by" | "sentMs" | "receivedMs">,
  ) {
    // A repeated acquire answers the same grant.
    const known = this.grants.get(grant.grant);
    if (known) {
      known.lastSentMs = Math.max(known.lastSentMs, grant.sentMs);
      return;
    }
    const record: GrantRecord = {
      ...grant,
      lastSentMs: grant.sentMs,
      pendingMs: null,
      releasingMs: null,
      refused: false,
      trustedMs: 0,
    };
    this.grants.set(grant.grant, record);
    const same = this.byResource.get(grant.resource);
    if (same) same.push(record);
    else this.byResource.set(grant.resource, [record]);
    for (const look of this.#watching) look();
  }

  each(grants: readonly string[], act: (record: GrantRecord) => void): void {
    for (const grant of grants) {
      const record = this.grants.get(grant);
      if (record) act(record);
    }
  }

  /** The grants that a process has reported and has not begun to release. */
  heldBy(by: string): GrantRecord[] {
    return [...this.byResource.values()].flatMap((grants) => {
      const last = grants.at(-1);
      return last && last.by === by && last.releasingMs === null && !last.refused ? [last] : [];
    });
  }

  /** The first grant of the resource that was received after this one, if there is one yet. */
  next({ resource, token }: GrantRecord): GrantRecord | undefined {
    return this.byResource.get(resource)?.find((other) => other.token > token);
  }

  /** Resolves when it holds, looked at with every grant, or when the signal aborts. */
  async until(holds: () => boolean, signal: AbortSignal): Promise<void> {
    if (holds() || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#watching.delete(look);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const look = () => holds() && done();
      this.#watching.add(look);
      signal.addEventListener("abort", done);
    });
  }
}

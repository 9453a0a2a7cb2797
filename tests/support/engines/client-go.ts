/**
 * A client shaped as client-go's LeaderElector with its LeaseLock: one step of tryAcquireOrRenew at a time.
 * It compares what it has read as whole seconds, ages a record by its own clock, keeps the metadata of the
 * object and writes its spec anew. tests/interop/kubernetes-interop.test.ts knows the real one too.
 */
import type { StoredLease } from "./kube-api.js";

type Ask = (
  method: string,
  name: string,
  body?: object,
) => Promise<{ status: number; body: StoredLease }>;

interface ElectionRecord {
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  readonly acquireTime: string;
  readonly renewTime: string;
  readonly leaderTransitions: number;
}

export class ClientGo {
  #observed: ElectionRecord | undefined;
  #observedRaw = "";
  #observedMs = 0;

  constructor(
    readonly ask: Ask,
    readonly name: string,
    readonly identity: string,
    readonly leaseDurationSeconds: number,
    readonly nowMs: () => number,
  ) {}

  get isLeader(): boolean {
    return this.#observed?.holderIdentity === this.identity;
  }

  /** @returns whether it leads now */
  async tryAcquireOrRenew(): Promise<boolean> {
    const now = new Date().toISOString();
    const fresh = {
      holderIdentity: this.identity,
      leaseDurationSeconds: this.leaseDurationSeconds,
      acquireTime: now,
      renewTime: now,
      leaderTransitions: 0,
    };
    const { status, body: lease } = await this.ask("GET", this.name);
    if (status === 404) {
      const metadata = { name: this.name };
      return this.#sent(fresh, await this.ask("POST", "", leaseOf(metadata, fresh)));
    }
    const old = recordOf(lease);
    // Times without their fraction: what has changed within a second is not seen.
    const raw = JSON.stringify({
      ...old,
      acquireTime: old.acquireTime.slice(0, 19),
      renewTime: old.renewTime.slice(0, 19),
    });
    if (raw !== this.#observedRaw) {
      this.#observed = old;
      this.#observedRaw = raw;
      this.#observedMs = this.nowMs();
    }
    const isOver = this.#observedMs + old.leaseDurationSeconds * 1_000 <= this.nowMs();
    if (old.holderIdentity !== "" && !isOver && !this.isLeader) return false;
    const record = this.isLeader
      ? { ...fresh, acquireTime: old.acquireTime, leaderTransitions: old.leaderTransitions }
      : { ...fresh, leaderTransitions: old.leaderTransitions + 1 };
    return this.#sent(record, await this.ask("PUT", this.name, leaseOf(lease.metadata, record)));
  }

  async release(): Promise<void> {
    const { body: lease } = await this.ask("GET", this.name);
    const now = new Date().toISOString();
    const record = {
      ...recordOf(lease),
      holderIdentity: "",
      leaseDurationSeconds: 1,
      acquireTime: now,
      renewTime: now,
    };
    this.#sent(record, await this.ask("PUT", this.name, leaseOf(lease.metadata, record)));
  }

  #sent(record: ElectionRecord, { status }: { status: number }): boolean {
    if (status >= 300) return false;
    this.#observed = record;
    this.#observedMs = this.nowMs();
    return true;
  }
}

function recordOf({ spec }: StoredLease): ElectionRecord {
  const text = (name: string) => String(spec[name] ?? "");
  const number = (name: string) => Number(spec[name] ?? 0);
  return {
    holderIdentity: text("holderIdentity"),
    leaseDurationSeconds: number("leaseDurationSeconds"),
    acquireTime: text("acquireTime"),
    renewTime: text("renewTime"),
    leaderTransitions: number("leaseTransitions"),
  };
}

function leaseOf(metadata: object, record: ElectionRecord): object {
  const { leaderTransitions, acquireTime, renewTime, ...same } = record;
  const micros = (time: string) => time.replace(/\.(\d{3})Z$/, ".$1000Z");
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata,
    spec: {
      ...same,
      acquireTime: micros(acquireTime),
      renewTime: micros(renewTime),
      leaseTransitions: leaderTransitions,
    },
  };
}

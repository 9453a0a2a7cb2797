/** The store's side: the memory store as the database, and the ledger of its grants. */
import type { Clock, LeaseStore, Timer } from "leasehold";
import {
  type AcquireOutcome,
  type LeaseRecord,
  type RenewOutcome,
  type RevokeRequest,
  rules,
} from "leasehold/internal";
import { MemoryLeaseState } from "leasehold/internal/memory";
import { Machine } from "leasehold-verification/simulation/machine";
import { observedStore, type Step } from "leasehold-verification/simulation/observed";
import type { GrantFrame, StoreFrame } from "./frame.js";
import type { NodeName } from "./settings.js";
import { NAME, NAMESPACE, type Stage } from "./stage.js";
import { duration, nodeOf, ordinal } from "./words.js";

/** What the ledger needs to know about the processes. */
export interface Holders {
  /** Whether the process of this holder is still alive. */
  isAlive(holder: string): boolean;
  /** Why it did not renew, as a clause. */
  excuseOf(holder: string): string;
  /** Called at each grant, to check whether a process still trusts an older one. */
  granted(leaseId: string): void;
}

const MOST_GRANTS = 100;
/** The expiry is logged this much after the last moment of the grant. */
const HAIR_MS = 0.001;

export class Ledger {
  readonly machine: Machine;
  readonly store: LeaseStore;
  readonly #stage: Stage;
  readonly #state: MemoryLeaseState;
  readonly #holders: Holders;
  #grants: readonly GrantFrame[] = [];
  #expiry: Timer | undefined;
  /** Requests whose wait has been logged. */
  readonly #waiting = new Set<string>();
  /** The requesting process of each lease id. A run has a few hundred. */
  readonly #requesters = new Map<string, NodeName>();
  /** Tokens of grants, by lease id. */
  readonly #tokens = new Map<string, number>();
  /** Grants that were ended early, so that only fencing protects from their holders. */
  readonly #endedEarly = new Set<string>();

  constructor(stage: Stage, holders: Holders) {
    this.#stage = stage;
    this.#holders = holders;
    this.machine = new Machine(stage.world, "store");
    this.machine.start();
    const clock: Clock = {
      wall: () => this.machine.wallMs,
      // In whole milliseconds, as databases count.
      monotonic: () => Math.floor(this.machine.monotonicMs),
      timer: () => {
        throw new Error("a store in memory sets no timers");
      },
    };
    this.#state = new MemoryLeaseState(clock);
    const observed = observedStore(this.#state, (step) => this.#onStep(step));
    const { queued } = stage.settings;
    this.store = {
      ...observed,
      capabilities: { ...observed.capabilities, queue: queued },
      acquire: (requests) => {
        for (const { leaseId, holder } of requests) this.#requesters.set(leaseId, nodeOf(holder));
        return observed.acquire(
          queued ? requests : requests.map(({ queueMs: _, ...rest }) => rest),
        );
      },
      get: (keys) => {
        stage.tally.operations.read += 1;
        return observed.get(keys);
      },
    };
  }

  /** The token of a grant; null if there is no grant with this id. */
  tokenOf(leaseId: string): number | null {
    return this.#tokens.get(leaseId) ?? null;
  }

  wasEndedEarly(leaseId: string): boolean {
    return this.#endedEarly.has(leaseId);
  }

  /** The last grant. */
  get record(): LeaseRecord | undefined {
    return this.#state.namespaces.get(NAMESPACE)?.records.get(NAME);
  }

  get queue(): readonly NodeName[] {
    const { waitQueue } = this.#state.namespace(NAMESPACE);
    const waiters = waitQueue.waiters(NAME, this.#state.clock.monotonic());
    return waiters.map(({ holder }) => nodeOf(holder));
  }

  /** Ends the lease by changing its record, as an operator could in a database. @returns whether one was live */
  expire(): boolean {
    const { record } = this;
    const nowMs = this.#state.clock.monotonic();
    if (!record || !rules.excludes(record, nowMs)) return false;
    this.#endedEarly.add(record.leaseId);
    this.#state.namespace(NAMESPACE).records.set(NAME, { ...record, expiresAtMs: nowMs });
    this.#expiry?.cancel();
    this.#end("forced");
    const holder = nodeOf(record.holder);
    const text = `${holder}'s lease (token ${record.token}) was forced to expire in the store, and ${holder} does not know.`;
    this.#stage.log.add("store", "expire", text, true);
    return true;
  }

  revoke(free: RevokeRequest["free"]): void {
    void this.store.revoke([{ namespace: NAMESPACE, resource: NAME, free }]);
  }

  frame(state: StoreFrame["state"]): StoreFrame {
    const { record, queue } = this;
    const grants = this.#grants;
    if (!record) {
      const none = { holder: null, token: null, remainingMs: 0, ttlMs: 0 };
      return { state, lease: "empty", ...none, queue, grants };
    }
    const isLive = rules.excludes(record, this.#state.clock.monotonic());
    return {
      state,
      lease: isLive ? "live" : "ended",
      holder: nodeOf(record.holder),
      token: record.token,
      remainingMs: isLive ? Math.max(0, record.expiresAtMs - this.machine.monotonicMs) : 0,
      ttlMs: record.ttlMs,
      queue,
      grants,
    };
  }

  #onStep(step: Step): void {
    this.#stage.tally.operations[step.operation] += 1;
    if (step.resource !== NAME) return this.#onHandover(step);
    switch (step.operation) {
      case "acquire":
        this.#onAcquire(step);
        break;
      case "renew":
        this.#onRenew(step);
        break;
      case "release":
        this.#onRelease(step);
        break;
      case "revoke":
        this.#onRevoke(step);
    }
    if (step.after !== step.before && step.after) this.#watchExpiry(step.after);
  }

  /** The name of a successor is stored in a lease beside the election's own. */
  #onHandover({ operation, outcome, after, before }: Step): void {
    if (operation !== "acquire" || outcome.status !== "acquired" || !after || after === before) {
      return;
    }
    const { successor } = JSON.parse(after.metadata ?? "{}") as { successor?: string };
    const from = nodeOf(after.holder);
    const text = `${from} recorded in the store that ${nodeOf(successor ?? "")} leads next.`;
    this.#stage.log.add("store", "release", text, true);
  }

  #onAcquire({ outcome, before, after, leaseId, storeMs }: Step): void {
    const { log, invariants } = this.#stage;
    const answer = outcome as AcquireOutcome;
    if (answer.status === "held" && leaseId) return this.#onHeld(answer, before, leaseId, storeMs);
    if (answer.status !== "acquired" || !after || !leaseId) return;
    const node = nodeOf(after.holder);
    const { token } = after;
    if (before?.leaseId === leaseId) {
      const text = `${node} retried with the same lease id. The store recognized the request and returned the same grant, token ${token}.`;
      return log.add("store", "grant", text, true);
    }
    if (before && rules.excludes(before, storeMs)) {
      invariants.broken("oneHolder", `token ${token} was granted too early`, null);
    }
    const lastToken = this.#grants.at(-1)?.token ?? 0;
    if (token <= lastToken) {
      invariants.broken("tokensGrow", `token ${token} came after ${lastToken}`, null);
    }
    this.#waiting.delete(leaseId);
    this.#tokens.set(leaseId, token);
    this.#stage.tally.acquires += 1;
    const grant: GrantFrame = {
      token,
      node,
      grantedAtMs: this.#stage.world.nowMs,
      renewals: 0,
      ...({ ended: "live", endedAtMs: null } as const),
    };
    this.#grants = [...this.#grants, grant].slice(-MOST_GRANTS);
    const text = `${node} acquired the lease with token ${token}: ${howFree(before, storeMs)}. The lease lasts ${duration(after.ttlMs)}.`;
    log.add("store", "grant", text, true);
    this.#holders.granted(leaseId);
  }

  /** Logged once for each request that starts to wait. */
  #onHeld(
    { holder, ahead }: Extract<AcquireOutcome, { status: "held" }>,
    before: LeaseRecord | null,
    leaseId: string,
    storeMs: number,
  ): void {
    if (this.#waiting.has(leaseId)) return;
    this.#waiting.add(leaseId);
    const isHeld = before && rules.excludes(before, storeMs);
    const why = isHeld ? `${nodeOf(holder)} holds it` : `it is reserved for ${nodeOf(holder)}`;
    const position = ahead !== undefined ? `, ${ordinal(ahead + 1)} in queue` : "";
    const node = this.#requesters.get(leaseId) ?? "A process";
    const text = `${node} requested the lease, but ${why}. ${node} waits${position}.`;
    this.#stage.log.add("store", "wait", text);
  }

  #onRenew({ outcome, before, after, leaseId }: Step): void {
    const { log, tally } = this.#stage;
    const answer = outcome as RenewOutcome;
    if (answer.status === "renewed" && after) {
      tally.renewals += 1;
      this.#change({ renewals: (this.#grants.at(-1)?.renewals ?? 0) + 1 });
      const text = `${nodeOf(after.holder)} renewed its lease, which now expires in ${duration(answer.remainingMs)}.`;
      return log.add("store", "renew", text);
    }
    if (answer.status !== "lost" || !leaseId) return;
    const token = this.tokenOf(leaseId);
    const why = {
      expired: "it had expired",
      revoked: "an operator revoked it",
      taken: `token ${before?.token} has been granted since`,
      gone: "it has ended",
    }[answer.reason];
    log.add("store", "lost", `The store refused to renew token ${token}: ${why}.`, true);
  }

  #onRelease({ outcome, before, after }: Step): void {
    if (outcome.status !== "released" || !after || after === before) return;
    this.#expiry?.cancel();
    this.#end("released");
    const [next] = this.queue;
    const woken = next ? ` The store wakes ${next}, the first waiter.` : "";
    const text = `${nodeOf(after.holder)} released the lease (token ${after.token}).${woken}`;
    this.#stage.log.add("store", "release", text, true);
  }

  #onRevoke({ outcome, after, storeMs }: Step): void {
    const { log } = this.#stage;
    if (outcome.status !== "revoked" || !after) {
      return log.add("store", "revoke", "There is no lease to revoke.");
    }
    const holder = nodeOf(after.holder);
    const leftMs = after.expiresAtMs - storeMs;
    if (leftMs <= 0) {
      this.#endedEarly.add(after.leaseId);
      this.#expiry?.cancel();
    }
    this.#end("revoked");
    const rest =
      leftMs > 0
        ? `renewals are refused, and the lease is free in ${duration(leftMs)}`
        : "the lease is free at once, while its holder may still trust it";
    log.add("store", "revoke", `An operator revoked ${holder}'s lease: ${rest}.`, true);
  }

  #watchExpiry(record: LeaseRecord): void {
    this.#expiry?.cancel();
    const delayMs = record.expiresAtMs - this.machine.monotonicMs;
    if (record.ended || delayMs <= 0) return;
    this.#expiry = this.#stage.world.after(delayMs + HAIR_MS, () => this.#onExpiry(record));
  }

  #onExpiry({ holder, token }: LeaseRecord): void {
    if (this.#grants.at(-1)?.ended !== "live") return;
    this.#end("expired");
    const { tally, log } = this.#stage;
    if (this.#holders.isAlive(holder)) tally.falseExpirations += 1;
    const text = `${nodeOf(holder)}'s lease (token ${token}) expired in the store: ${this.#holders.excuseOf(holder)}. The lease is free now.`;
    log.add("store", "expire", text, true);
  }

  #end(ended: GrantFrame["ended"]): void {
    const last = this.#grants.at(-1);
    // A revoked grant may be released or expire later.
    if (last?.ended === "live") this.#change({ ended, endedAtMs: this.#stage.world.nowMs });
  }

  #change(change: Partial<GrantFrame>): void {
    const last = this.#grants.at(-1);
    if (last) this.#grants = this.#grants.with(-1, { ...last, ...change });
  }
}

function howFree(before: LeaseRecord | null, storeMs: number): string {
  if (!before) return "it had never been held";
  const agoMs = storeMs - before.expiresAtMs;
  const whose = `${nodeOf(before.holder)}'s lease (token ${before.token})`;
  const ago = agoMs < 1 ? "just now" : `${duration(agoMs)} ago`;
  if (before.ended === "released") return `${whose} was released ${ago}`;
  if (before.ended === "revoked") return `${whose} was revoked and became free ${ago}`;
  return `${whose} expired ${ago}`;
}

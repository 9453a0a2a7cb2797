/** The store's side: the memory store as the database, and the book of what it granted. */
import type { Clock, LeaseStore, Timer } from "leasehold";
import {
  type AcquireOutcome,
  type LeaseRecord,
  MemoryLeaseState,
  type RenewOutcome,
  type RevokeRequest,
  rules,
} from "leasehold/internal";
import { Machine } from "leasehold-verification/simulation/machine";
import { observedStore, type Step } from "leasehold-verification/simulation/observed";
import type { GrantFrame, StoreFrame } from "./frame.js";
import type { NodeName } from "./settings.js";
import { NAME, NAMESPACE, type Stage } from "./stage.js";
import { duration, nodeOf, ordinal } from "./words.js";

/** What the book needs to know of the processes. */
export interface Holders {
  /** Whether the process of this holder has not died. */
  isAlive(holder: string): boolean;
  /** Why it did not renew, as a clause. */
  excuseOf(holder: string): string;
  /** The store grants to another now: does anybody still trust an older grant? */
  granted(leaseId: string): void;
}

const MOST_GRANTS = 100;
/** Just after the last moment. */
const HAIR_MS = 0.001;

export class Ledger {
  readonly machine: Machine;
  readonly store: LeaseStore;
  readonly #stage: Stage;
  readonly #state: MemoryLeaseState;
  readonly #holders: Holders;
  #grants: readonly GrantFrame[] = [];
  #expiry: Timer | undefined;
  /** Tickets of which it was told that they wait. */
  readonly #waiting = new Set<string>();
  /** Who asked under which lease id. A run makes a few hundred. */
  readonly #askers = new Map<string, NodeName>();
  /** Tokens of grants, by lease id. */
  readonly #tokens = new Map<string, number>();
  /** Grants that were ended before their time, so that only the fence protects from their holders. */
  readonly #endedEarly = new Set<string>();

  constructor(stage: Stage, holders: Holders) {
    this.#stage = stage;
    this.#holders = holders;
    this.machine = new Machine(stage.world, "store");
    this.machine.start();
    const clock: Clock = {
      wall: () => this.machine.wallMs,
      // In whole milliseconds, as databases count: what happens at the very expiry happens.
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
        for (const { leaseId, holder } of requests) this.#askers.set(leaseId, nodeOf(holder));
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

  /** The token of a grant; null where there was none under this id. */
  tokenOf(leaseId: string): number | null {
    return this.#tokens.get(leaseId) ?? null;
  }

  wasEndedEarly(leaseId: string): boolean {
    return this.#endedEarly.has(leaseId);
  }

  /** The last grant that was made. */
  get record(): LeaseRecord | undefined {
    return this.#state.namespaces.get(NAMESPACE)?.records.get(NAME);
  }

  get line(): readonly NodeName[] {
    const tickets = this.#state.namespaces.get(NAMESPACE)?.tickets.get(NAME) ?? [];
    const nowMs = this.#state.clock.monotonic();
    return tickets
      .filter(({ expiresAtMs }) => nowMs < expiresAtMs)
      .map(({ holder }) => nodeOf(holder));
  }

  /** As if somebody had set the row's time back. @returns whether there was a lease to end */
  expire(): boolean {
    const { record } = this;
    const nowMs = this.#state.clock.monotonic();
    if (!record || !rules.excludes(record, nowMs)) return false;
    this.#endedEarly.add(record.leaseId);
    this.#state.namespace(NAMESPACE).records.set(NAME, { ...record, expiresAtMs: nowMs });
    this.#expiry?.cancel();
    this.#end("forced");
    const holder = nodeOf(record.holder);
    const text = `${holder}'s lease (token ${record.token}) was ended in the store before its time, and nobody told ${holder}.`;
    this.#stage.log.tell("store", "expire", text, true);
    return true;
  }

  revoke(free: RevokeRequest["free"]): void {
    void this.store.revoke([{ namespace: NAMESPACE, resource: NAME, free }]);
  }

  frame(state: StoreFrame["state"]): StoreFrame {
    const { record, line } = this;
    const grants = this.#grants;
    if (!record) {
      const none = { holder: null, token: null, remainingMs: 0, ttlMs: 0 };
      return { state, lease: "empty", ...none, line, grants };
    }
    const isLive = rules.excludes(record, this.#state.clock.monotonic());
    return {
      state,
      lease: isLive ? "live" : "ended",
      holder: nodeOf(record.holder),
      token: record.token,
      remainingMs: isLive ? Math.max(0, record.expiresAtMs - this.machine.monotonicMs) : 0,
      ttlMs: record.ttlMs,
      line,
      grants,
    };
  }

  #onStep(step: Step): void {
    this.#stage.tally.operations[step.operation] += 1;
    if (step.resource !== NAME) return this.#onWord(step);
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

  /** Word of a successor is a lease beside the election's own. */
  #onWord({ operation, outcome, after, before }: Step): void {
    if (operation !== "acquire" || outcome.status !== "acquired" || !after || after === before) {
      return;
    }
    const { successor } = JSON.parse(after.metadata ?? "{}") as { successor?: string };
    const from = nodeOf(after.holder);
    const text = `${from} left word in the store that ${nodeOf(successor ?? "")} is to lead next.`;
    this.#stage.log.tell("store", "release", text, true);
  }

  #onAcquire({ outcome, before, after, leaseId, storeMs }: Step): void {
    const { log, invariants } = this.#stage;
    const answer = outcome as AcquireOutcome;
    if (answer.status === "held" && leaseId) return this.#onHeld(answer, before, leaseId, storeMs);
    if (answer.status !== "acquired" || !after || !leaseId) return;
    const node = nodeOf(after.holder);
    const { token } = after;
    if (before?.leaseId === leaseId) {
      const text = `${node} asked again under the same lease id: the store knew the grant, and answered the same token ${token}.`;
      return log.tell("store", "grant", text, true);
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
    const text = `${node} took the lease with token ${token}: ${howFree(before, storeMs)}. It lasts ${duration(after.ttlMs)}.`;
    log.tell("store", "grant", text, true);
    this.#holders.granted(leaseId);
  }

  /** Told once for each time that somebody begins to wait. */
  #onHeld(
    { holder, ahead }: Extract<AcquireOutcome, { status: "held" }>,
    before: LeaseRecord | null,
    leaseId: string,
    storeMs: number,
  ): void {
    if (this.#waiting.has(leaseId)) return;
    this.#waiting.add(leaseId);
    const isHeld = before && rules.excludes(before, storeMs);
    const why = isHeld ? `${nodeOf(holder)} holds it` : `it is kept for ${nodeOf(holder)}`;
    const place = ahead !== undefined ? `, ${ordinal(ahead + 1)} in line` : "";
    const who = this.#askers.get(leaseId) ?? "somebody";
    const text = `${who} asked for the lease: ${why}. ${who} waits${place}.`;
    this.#stage.log.tell("store", "wait", text);
  }

  #onRenew({ outcome, before, after, leaseId }: Step): void {
    const { log, tally } = this.#stage;
    const answer = outcome as RenewOutcome;
    if (answer.status === "renewed" && after) {
      tally.renewals += 1;
      this.#change({ renewals: (this.#grants.at(-1)?.renewals ?? 0) + 1 });
      const text = `${nodeOf(after.holder)} renewed its lease; it now expires ${duration(answer.remainingMs)} from now.`;
      return log.tell("store", "renew", text);
    }
    if (answer.status !== "lost" || !leaseId) return;
    const token = this.tokenOf(leaseId);
    const why = {
      expired: "its time had run out",
      revoked: "an operator has revoked it",
      taken: `token ${before?.token} has been granted since`,
      gone: "it has ended",
    }[answer.reason];
    log.tell("store", "lost", `The store refused to renew token ${token}: ${why}.`, true);
  }

  #onRelease({ outcome, before, after }: Step): void {
    if (outcome.status !== "released" || !after || after === before) return;
    this.#expiry?.cancel();
    this.#end("released");
    const [next] = this.line;
    const heir = next ? ` ${next} is first in line, and is woken.` : "";
    const text = `${nodeOf(after.holder)} gave the lease back (token ${after.token}).${heir}`;
    this.#stage.log.tell("store", "release", text, true);
  }

  #onRevoke({ outcome, after, storeMs }: Step): void {
    const { log } = this.#stage;
    if (outcome.status !== "revoked" || !after) {
      return log.tell("store", "revoke", "There is no lease to revoke.");
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
        ? `its renewals are refused, and the lease is free in ${duration(leftMs)}`
        : "it is free at once, while its holder may still trust it";
    log.tell("store", "revoke", `An operator revoked ${holder}'s lease: ${rest}.`, true);
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
    const text = `${nodeOf(holder)}'s lease (token ${token}) ran out in the store: ${this.#holders.excuseOf(holder)}. It is free now.`;
    log.tell("store", "expire", text, true);
  }

  #end(ended: GrantFrame["ended"]): void {
    const last = this.#grants.at(-1);
    // A revoked grant may be given back, or run out, after that.
    if (last?.ended === "live") this.#change({ ended, endedAtMs: this.#stage.world.nowMs });
  }

  #change(change: Partial<GrantFrame>): void {
    const last = this.#grants.at(-1);
    if (last) this.#grants = this.#grants.with(-1, { ...last, ...change });
  }
}

function howFree(before: LeaseRecord | null, storeMs: number): string {
  if (!before) return "nobody had held it";
  const agoMs = storeMs - before.expiresAtMs;
  const whose = `${nodeOf(before.holder)}'s (token ${before.token})`;
  const ago = agoMs < 1 ? "just now" : `${duration(agoMs)} ago`;
  if (before.ended === "released") return `${whose} was given back ${ago}`;
  if (before.ended === "revoked") return `${whose} was revoked, and free since ${ago}`;
  return `${whose} had run out ${ago}`;
}

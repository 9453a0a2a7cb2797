/**
 * The grants of this client: each is a znode of its session. The session keeps them all alive, so that
 * it is here that each of them ends with its own time. What was asked for and never answered stands
 * here too: it may have been granted, and nobody would know.
 */
import type { Clock, Timer } from "../../env/index.js";
import type { Grant, Key } from "../../lease/index.js";
import { contenderOf, contenderPrefix, type Paths } from "./paths.js";
import type { ContenderRecord } from "./records.js";

export interface OwnGrant {
  readonly id: string;
  /** With its lease id: whoever has this has the right. */
  readonly grant: Grant;
  readonly record: ContenderRecord;
  /** What was granted. */
  readonly ttlMs: number;
  /** By this process's monotonic clock: others may have it from then on. */
  untilMs: number;
  /** Its znode as it was last seen; null while nobody knows whether there is one. */
  node: OwnNode | null;
}
export interface OwnNode {
  readonly path: string;
  /** Of the session. */
  readonly owner: string;
  readonly token: number;
  readonly version: number;
  /** Of the lock's znode, which names this grant as its last. */
  readonly lockVersion: number;
  readonly grantedAtMs: number;
  readonly renewedAtMs: number | null;
}

/** An end that failed is tried again so much later, or as soon as there is a connection. */
const RETRY_MS = 1_000;

export class OwnGrants {
  readonly #grants = new Map<string, OwnGrant>();
  readonly #timers = new Map<string, Timer>();
  readonly #turns = new Map<string, Promise<unknown>>();
  #closed = false;

  /** @param end called when a grant's time is over, until it is forgotten */
  constructor(
    readonly clock: Clock,
    readonly end: (grant: OwnGrant) => Promise<unknown>,
  ) {}

  get(id: string): OwnGrant | undefined {
    return this.#grants.get(id);
  }

  put(grant: OwnGrant): void {
    if (this.#closed) return;
    this.#grants.set(grant.id, grant);
    this.#arm(grant, grant.untilMs - this.clock.monotonic());
  }

  forget(id: string): void {
    this.#grants.delete(id);
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
  }

  /** There is a connection again. */
  hurry(): void {
    const nowMs = this.clock.monotonic();
    for (const grant of this.#grants.values()) {
      if (grant.untilMs <= nowMs) this.#arm(grant, 0);
    }
  }

  /** What is done about one grant is done one after the other: its end must not cross its renewal. */
  inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(id);
    const turn = before ? before.then(work, work) : work();
    this.#turns.set(id, turn);
    const over = () => {
      if (this.#turns.get(id) === turn) this.#turns.delete(id);
    };
    turn.then(over, over);
    return turn;
  }

  close(): void {
    this.#closed = true;
    for (const id of [...this.#grants.keys()]) this.forget(id);
  }

  #arm(grant: OwnGrant, delayMs: number): void {
    this.#timers.get(grant.id)?.cancel();
    const timer = this.clock.timer(delayMs, () => void this.#due(grant.id), { background: true });
    this.#timers.set(grant.id, timer);
  }

  async #due(id: string): Promise<void> {
    await this.inTurn(id, async () => {
      const grant = this.#grants.get(id);
      if (grant && grant.untilMs <= this.clock.monotonic()) await this.end(grant).catch(() => {});
    });
    const grant = this.#grants.get(id);
    if (!grant) return;
    const leftMs = grant.untilMs - this.clock.monotonic();
    this.#arm(grant, leftMs > 0 ? leftMs : RETRY_MS);
  }
}

/** Names a grant, and how its znode's name begins. */
export function idOf(paths: Paths, key: Key, leaseId: string): string {
  return `${paths.lock(key)}/${contenderPrefix(contenderOf(leaseId))}`;
}

/** The wait queue of a key while the requests of a batch for it are decided, and what is to be saved of it. */
import { type AcquireRequest, type QueuedWaiter, waiterOf } from "../lease/index.js";
import type { LoadedQueue, QueuePosition } from "./engine.js";

export class QueueFold {
  readonly #loaded: LoadedQueue;
  /** Positions that differ from those that were loaded. */
  readonly #positions = new Map<string, QueuePosition>();
  #count: number;
  /** How many waiters at the beginning of the queue are removed. */
  #removed = 0;
  #firstHolder: string;
  /** False: the holder of the first waiter is known after the next load. */
  isFirstKnown = true;
  joins: QueuedWaiter[] = [];
  served: string | null = null;
  readonly #withdrawn = new Set<string>();
  /** The positions of those, and the first one that is left. */
  readonly #gaps = new Set<number>();
  #head = 0;

  constructor(loaded: LoadedQueue) {
    this.#loaded = loaded;
    this.#count = loaded.count;
    this.#firstHolder = loaded.firstHolder;
  }

  get withdrawn(): readonly string[] {
    return [...this.#withdrawn];
  }

  /** Whether there is anything to save. */
  get isChanged(): boolean {
    return this.joins.length > 0 || this.served !== null || this.#withdrawn.size > 0;
  }

  /** How many waiters are before this lease id, and the holder of the first one. */
  position(leaseId: string): { readonly ahead: number; readonly holder: string } {
    const ahead = (this.#own(leaseId)?.ahead ?? this.#count) - this.#removed;
    return { ahead, holder: this.#firstHolder };
  }

  /**
   * The waiter of a refused request joins, or stays for longer.
   * @returns false: its old position is removed by this batch, so that it can join after the next load
   */
  join(request: AcquireRequest, nowMs: number): boolean {
    const waiter = waiterOf(request, nowMs);
    if (!waiter) return true;
    const { leaseId, expiresAtMs } = waiter;
    const own = this.#own(leaseId);
    if (!own && this.#loaded.positions.has(leaseId)) return false;
    // Never shorter than promised before.
    if (own && own.expiresAtMs >= expiresAtMs) return true;
    if (this.#count === this.#removed) {
      this.#firstHolder = waiter.holder;
      this.isFirstKnown = true;
    }
    this.#positions.set(leaseId, { ahead: own?.ahead ?? this.#count, expiresAtMs });
    if (!own) this.#count += 1;
    this.joins.push(waiter);
    return true;
  }

  /** The request with this lease id has the resource: its waiter leaves, and those before it, which were passed over. */
  serve(leaseId: string): void {
    const own = this.#own(leaseId);
    if (!own) return;
    this.#removed = own.ahead + 1;
    this.joins = this.joins.filter((waiter) => this.#own(waiter.leaseId));
    this.#firstHolder = "";
    this.isFirstKnown = this.#count === this.#removed;
    this.served = leaseId;
  }

  /**
   * The waiter with this lease id gives up.
   * @returns whether it was the first, and another one takes its place
   */
  withdraw(leaseId: string): boolean {
    const own = this.#own(leaseId);
    if (!own || this.#withdrawn.has(leaseId)) return false;
    this.#withdrawn.add(leaseId);
    this.#gaps.add(own.ahead);
    const isFirst = own.ahead === this.#head;
    while (this.#gaps.has(this.#head)) this.#head += 1;
    return isFirst && this.#head < this.#count;
  }

  /** Undefined: it has none, or has been removed. */
  #own(leaseId: string): QueuePosition | undefined {
    const own = this.#positions.get(leaseId) ?? this.#loaded.positions.get(leaseId);
    return own && own.ahead >= this.#removed ? own : undefined;
  }
}

/** A key while the requests of a batch for it are decided, one after the other, and what is to be saved of it. */
import type { AcquireRequest, Key, LeaseRecord, QueuedWaiter } from "../lease/index.js";
import { type Change, EMPTY_QUEUE, type Loaded } from "./engine.js";
import { QueueFold } from "./queue-fold.js";

const NONE: readonly never[] = [];
const NO_WAITERS = { ahead: 0, holder: "" };

export class KeyFold<Version> implements Change<Version> {
  readonly #key: Key;
  readonly loaded: Loaded<Version>;
  readonly nowMs: number;
  /** What the key has after the requests so far. */
  current: LeaseRecord | null;
  record: LeaseRecord | null = null;
  changesGrant = false;
  wakes = false;
  /** Null: there is no waiter, as most of the time. */
  #queue: QueueFold | null;

  constructor(key: Key, loaded: Loaded<Version>, nowMs: number) {
    this.#key = key;
    this.loaded = loaded;
    this.nowMs = nowMs;
    this.current = loaded.record;
    this.#queue = loaded.queue?.count ? new QueueFold(loaded.queue) : null;
  }

  get namespace(): string {
    return this.#key.namespace;
  }
  get resource(): string {
    return this.#key.resource;
  }
  get version(): Version {
    return this.loaded.version;
  }
  get joins(): readonly QueuedWaiter[] {
    return this.#queue?.joins ?? NONE;
  }
  get served(): string | null {
    return this.#queue?.served ?? null;
  }
  get withdrawn(): readonly string[] {
    return this.#queue?.withdrawn ?? NONE;
  }

  /** Whether there is anything to save. */
  get isChanged(): boolean {
    return this.record !== null || this.wakes || (this.#queue?.isChanged ?? false);
  }

  /** False: the holder of the first waiter is known after the next load. */
  get isFirstKnown(): boolean {
    return this.#queue?.isFirstKnown ?? true;
  }

  /** How many waiters are before this lease id, and the holder of the first one. */
  position(leaseId: string): { readonly ahead: number; readonly holder: string } {
    return this.#queue?.position(leaseId) ?? NO_WAITERS;
  }

  /** @returns false: the waiter can join after the next load */
  join(request: AcquireRequest): boolean {
    if (!request.queueMs) return true;
    this.#queue ??= new QueueFold(EMPTY_QUEUE);
    return this.#queue.join(request, this.nowMs);
  }

  serve(leaseId: string): void {
    this.#queue?.serve(leaseId);
  }

  /** @returns whether the waiter was the first, and another one takes its place */
  withdraw(leaseId: string): boolean {
    return this.#queue?.withdraw(leaseId) ?? false;
  }

  /** A grant that was loaded, with what is left of it for its holder; it is written again where only that tells. */
  trusted<Term extends { readonly remainingMs: number }>(term: Term): Term {
    const { record, trustedUntilMs } = this.loaded;
    if (trustedUntilMs === undefined || this.current !== record) return term;
    if (trustedUntilMs === null && record) {
      this.changesGrant = true;
      this.record = record;
      return term;
    }
    const leftMs = Math.max(0, (trustedUntilMs ?? 0) - this.nowMs);
    return { ...term, remainingMs: Math.min(term.remainingMs, leftMs) };
  }

  write(record: LeaseRecord | null): void {
    if (record === null || record === this.current) return;
    if (this.loaded.record?.leaseId === record.leaseId) this.changesGrant = true;
    // Only the end of a grant helps a waiter; new grants and renewals do not.
    if (record.ended) this.wakes = true;
    this.current = record;
    this.record = record;
  }
}

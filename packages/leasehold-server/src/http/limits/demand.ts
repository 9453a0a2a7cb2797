/**
 * One demand at the admission of the instance. It counts while the server works on it, and not while its client sends the
 * body: a slow client must not look like a slow store, and unfinished bodies must not take the room of other tenants.
 */
import { nextTurn } from "leasehold/internal";
import type { Admission } from "./admission.js";

export class Demand {
  readonly #admission: Admission;
  readonly #isOfSocket: boolean;
  #leave: ReturnType<Admission["enter"]> = null;
  /** Ends with the turn in which it began to count; null: that is over, or does not matter. */
  #turn: Promise<void> | null = null;

  /**
   * @param isOfSocket others arrive in the same turn of the event loop. A store in this process answers each before the next
   *   one is read, so that none would ever be in flight, however long the turn takes: such a demand counts until the turn ends
   */
  constructor(admission: Admission, isOfSocket: boolean) {
    this.#admission = admission;
    this.#isOfSocket = isOfSocket;
    this.#enter(null);
  }

  get isRefused(): boolean {
    return this.#leave === null;
  }

  /** It waits for its client, or for what bounds its tenant. */
  pause(): void {
    this.#leave?.("paused");
    this.#leave = null;
  }

  /**
   * Counts it from now on, as one of this tenant.
   * @returns false if it is refused
   */
  resume(tenant: string | null): boolean {
    this.pause();
    this.#enter(tenant);
    return !this.isRefused;
  }

  end(): void {
    const leave = this.#leave;
    this.#leave = null;
    if (leave === null) return;
    if (this.#turn) void this.#turn.then(() => leave("withinTurn"));
    else leave("answered");
  }

  #enter(tenant: string | null): void {
    this.#leave = this.#admission.enter(tenant);
    if (!this.#isOfSocket) return;
    const turn = nextTurn().then(() => {
      if (this.#turn === turn) this.#turn = null;
    });
    this.#turn = turn;
  }
}

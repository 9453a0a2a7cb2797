/**
 * One demand at the admission of the instance. It counts while the server works on it, and not while its client sends the
 * body: a slow client must not look like a slow store, and unfinished bodies must not take the room of other tenants.
 */
import type { Admission } from "./admission.js";

export class Demand {
  readonly #admission: Admission;
  #leave: ReturnType<Admission["enter"]>;

  constructor(admission: Admission) {
    this.#admission = admission;
    this.#leave = admission.enter();
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
    this.#leave = this.#admission.enter(tenant);
    return !this.isRefused;
  }

  /**
   * @param turn of the event loop, in which others arrive at the server as well. A store in this process answers each before
   *   the next one is read, so none would ever be in flight, however long the turn takes. Undefined: there is no server
   */
  end(turn?: Promise<void>): void {
    const leave = this.#leave;
    this.#leave = null;
    if (turn) void turn.then(() => leave?.());
    else leave?.();
  }
}

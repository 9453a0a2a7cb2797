/** The counters of a run, by which settings are compared. */
import type { World } from "leasehold-verification/simulation/world";
import type { Counters } from "./frame.js";
import type { NodeName } from "./settings.js";

type Operation = "acquire" | "renew" | "release" | "read" | "revoke";

export class Tally {
  readonly operations: Record<Operation, number> = {
    acquire: 0,
    renew: 0,
    release: 0,
    read: 0,
    revoke: 0,
  };
  acquires = 0;
  renewals = 0;
  falseExpirations = 0;
  writes = 0;
  refusedWrites = 0;
  staleWritesLetThrough = 0;
  messagesSent = 0;
  messagesLost = 0;
  readonly failOversMs: number[] = [];
  readonly #world: World;
  /** The process whose work started last, and its token. */
  #leading: { readonly node: NodeName; readonly token: number } | undefined;
  #vacantSinceMs: number | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  /**
   * The work of a term starts.
   * @returns the time without a leader, 0 if the last one still works; null for the first term
   */
  began(node: NodeName, token: number): number | null {
    const last = this.#leading;
    const vacantMs = this.#vacantMs;
    this.#leading = { node, token };
    this.#vacantSinceMs = undefined;
    if (!last || last.token === token) return null;
    this.failOversMs.push(vacantMs);
    return vacantMs;
  }

  /** The last leader stops: crashed, paused, or without trust in its lease. */
  stopped(node: NodeName, token: number | null): void {
    if (this.#leading?.node !== node || this.#leading.token !== token) return;
    this.#vacantSinceMs ??= this.#world.nowMs;
  }

  /** The last leader resumes under the same lease, so there was no gap. */
  resumed(node: NodeName, token: number): void {
    if (this.#leading?.node === node && this.#leading.token === token) {
      this.#vacantSinceMs = undefined;
    }
  }

  frame(): Counters {
    const { operations, failOversMs } = this;
    const sum = failOversMs.reduce((total, ms) => total + ms, 0);
    const count = failOversMs.length;
    const total = Object.values(operations).reduce((all, some) => all + some, 0);
    const { acquires, renewals, falseExpirations, writes, refusedWrites } = this;
    const { staleWritesLetThrough, messagesSent, messagesLost } = this;
    return {
      operations: { ...operations, total },
      failOvers: {
        count,
        lastMs: failOversMs.at(-1) ?? null,
        meanMs: count > 0 ? sum / count : null,
        maxMs: count > 0 ? Math.max(...failOversMs) : null,
      },
      acquires,
      renewals,
      falseExpirations,
      writes,
      refusedWrites,
      staleWritesLetThrough,
      messagesSent,
      messagesLost,
    };
  }

  get #vacantMs(): number {
    // Undefined if the next leader started before the last one had stopped.
    return this.#vacantSinceMs === undefined ? 0 : this.#world.nowMs - this.#vacantSinceMs;
  }
}

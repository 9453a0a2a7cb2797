/** The protected resource: a value behind the library's real guard, which can be switched off. */

import { StaleTokenError } from "leasehold";
import { memoryGuard } from "leasehold/fence";
import { Machine } from "leasehold-verification/simulation/machine";
import type { ResourceFrame, WriteFrame } from "./frame.js";
import type { NodeName } from "./settings.js";
import { NAME, type Stage } from "./stage.js";

/** The answer to a write. */
export interface WriteAnswer {
  readonly accepted: boolean;
  readonly lastToken: number;
}

/** The message of a write, for the network's watcher. */
export interface WriteMessage {
  readonly operation: "write";
  readonly token: number;
  /** Undefined in a request. */
  readonly answer?: unknown;
}

const MOST_WRITES = 100;

export class Resource {
  readonly machine: Machine;
  readonly #stage: Stage;
  readonly #guard = memoryGuard();
  readonly #writesOf = new Map<NodeName, number>();
  #lastToken = 0;
  #count = 0;
  #corrupted = 0;
  #value: ResourceFrame["value"] = null;
  #writes: readonly WriteFrame[] = [];
  /** All writes with an older token, refused or accepted. */
  readonly stale: WriteFrame[] = [];

  constructor(stage: Stage) {
    this.#stage = stage;
    this.machine = new Machine(stage.world, "resource");
    this.machine.start();
  }

  /** Always asks the guard; without fencing its refusal has no effect. */
  async write(node: NodeName, token: number): Promise<WriteAnswer> {
    const { settings, tally } = this.#stage;
    let stale = false;
    try {
      await this.#guard.guard(NAME, token, () => {});
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error;
      stale = true;
    }
    const refused = stale && settings.fenced;
    if (refused) this.#refuse(node, token);
    else if (stale) this.#corrupt(node, token);
    else this.#lastToken = token;
    if (!refused) {
      tally.writes += 1;
      this.#count += 1;
      this.#writesOf.set(node, this.writesOf(node) + 1);
      this.#value = { node, token, count: this.#count };
    }
    const why = stale
      ? `token ${token} is older than ${this.#lastToken}`
      : `token ${token} is the newest seen`;
    const { nowMs: atMs } = this.#stage.world;
    const write: WriteFrame = { atMs, node, token, accepted: !refused, stale, why };
    if (stale) this.stale.push(write);
    this.#writes = [...this.#writes, write].slice(-MOST_WRITES);
    return { accepted: !refused, lastToken: this.#lastToken };
  }

  /** How many of its writes were accepted. */
  writesOf(node: NodeName): number {
    return this.#writesOf.get(node) ?? 0;
  }

  frame(): ResourceFrame {
    return {
      fenced: this.#stage.settings.fenced,
      lastToken: this.#lastToken,
      value: this.#value,
      writes: this.#writes,
      corrupted: this.#corrupted,
    };
  }

  #refuse(node: NodeName, token: number): void {
    this.#stage.tally.refusedWrites += 1;
    const text = `The resource refused ${node}'s write: token ${token} is older than ${this.#lastToken}.`;
    this.#stage.log.add("resource", "refused", text, true);
  }

  #corrupt(node: NodeName, token: number): void {
    const { tally, log, invariants } = this.#stage;
    tally.staleWritesLetThrough += 1;
    this.#corrupted += 1;
    const over = this.#value ? `${this.#value.node}'s value` : "the value";
    const text = `Without fencing, ${node} overwrote ${over} with token ${token}, which is older than ${this.#lastToken}. The data is corrupted.`;
    log.add("resource", "corrupted", text, true);
    invariants.broken(
      "neverBack",
      `${node} wrote with token ${token} after ${this.#lastToken}`,
      "fencing is off",
    );
  }
}

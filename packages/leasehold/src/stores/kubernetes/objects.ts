/**
 * Reads and writes Lease objects. A write carries the resourceVersion of the object that it changes, so a late one finds another
 * version and does nothing. Expiry is measured by observation: see observations.ts.
 */

import type { Env } from "../../env/index.js";
import { type Key, StoreMisconfiguredError } from "../../lease/index.js";
import {
  type Answer,
  DEFAULT_BUDGET_MS,
  type KubernetesApi,
  type LeaseList,
} from "./connection.js";
import { objectNameOf } from "./keys.js";
import { Observations } from "./observations.js";
import { keyOf, type LeaseObject, type Observed } from "./records.js";
import { newObject, type Times } from "./records-changes.js";

/** The number of objects processed at a time. */
const CONCURRENCY = 32;
const PAGE = 500;

/** An object as the API server has answered it. */
export interface Received extends Observed {
  /** The API server's clock. */
  readonly serverWallMs: number | null;
}

export class LeaseObjects {
  readonly observations = new Observations();
  readonly #api: KubernetesApi;
  readonly #env: Env;

  constructor(api: KubernetesApi, env: Env) {
    this.#api = api;
    this.#env = env;
  }

  times(): Times {
    const { clock } = this.#env;
    return { nowMs: clock.monotonic(), wallMs: clock.wall() };
  }

  /** Returns the deadline of a call that begins now. */
  deadlineMs(timeoutMs = DEFAULT_BUDGET_MS): number {
    return this.times().nowMs + timeoutMs;
  }

  /** Reads the object; if it is missing, returns the one to create, which has no version. */
  async find(key: Key, deadlineMs: number): Promise<Received> {
    const name = objectNameOf(key);
    const answer = await this.#api.send({ verb: "get", name, deadlineMs });
    if (answer.status === 404) {
      this.observations.forget(name);
      const { nowMs: receivedMs } = this.times();
      const object = newObject(name, key);
      return { object, receivedMs, trustFromMs: null, serverWallMs: answer.wallMs };
    }
    const found = this.#received(answer);
    const owner = keyOf(found.object);
    if (owner && (owner.namespace !== key.namespace || owner.resource !== key.resource)) {
      throw new StoreMisconfiguredError(
        `the Lease object ${name} carries annotations of the resource "${owner.resource}" in the namespace "${owner.namespace}", not of "${key.resource}" in "${key.namespace}". Delete the object if its annotations were edited by hand`,
      );
    }
    return found;
  }

  /** @returns null if another client has created it first */
  async create(body: LeaseObject, deadlineMs: number): Promise<Received | null> {
    const answer = await this.#api.send({ verb: "create", body, deadlineMs });
    return answer.status === 409 ? null : this.#received(answer);
  }

  /**
   * Writes the next version of an object.
   * @param trustFromMs if this makes or renews a grant: see {@link Observed}
   * @returns false if the object has a newer version, or is gone
   */
  async put(body: LeaseObject, deadlineMs: number, trustFromMs?: number): Promise<boolean> {
    const { name } = body.metadata;
    const answer = await this.#api.send({ verb: "update", name, body, deadlineMs });
    if (answer.status >= 300) return false;
    this.observations.note(answer.body as LeaseObject, this.times().nowMs, trustFromMs);
    return true;
  }

  #received({ body, wallMs }: Answer): Received {
    const observed = this.observations.note(body as LeaseObject, this.times().nowMs);
    return { ...observed, serverWallMs: wallMs };
  }

  /** Lists all objects that match a selector. */
  async all(selector: Readonly<Record<string, string>>): Promise<Observed[]> {
    const deadlineMs = this.deadlineMs();
    let found: Observed[] = [];
    let next: string | undefined;
    for (;;) {
      const rest: Record<string, string> = next === undefined ? {} : { continue: next };
      const query = { ...selector, limit: String(PAGE), ...rest };
      const { status, body } = await this.#api.send({ verb: "list", query, deadlineMs });
      if (status === 410) {
        // The list took too long, and the server has dropped the version of its first pages.
        [found, next] = [[], undefined];
        continue;
      }
      const { items, metadata } = body as LeaseList;
      const { nowMs } = this.times();
      for (const object of items) found.push(this.observations.note(object, nowMs));
      next = metadata.continue || undefined;
      if (next === undefined) return found;
    }
  }
}

/** Returns the results in the order of the items. */
export async function inParallel<T, Result>(
  items: readonly T[],
  work: (item: T) => Promise<Result>,
): Promise<Result[]> {
  const results = new Array<Result>(items.length);
  const rest = items.entries();
  const worker = async () => {
    for (const [index, item] of rest) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, items.length) }, worker));
  return results;
}

/**
 * Turns requests into writes. Each reads one object, applies the rules and writes the object back under
 * the resourceVersion that it read:
 *
 *   GET ──▶ decide ──▶ PUT ──▶ 200: written
 *    ▲         │         ├──▶ 409, 404: another client wrote first; read again
 *    │         │         └──▶ no response: unknown (`maybe`)
 *    │         └──▶ nothing to write: the outcome
 *    └── 404: POST a free object, then continue with it
 *
 * A late write finds another version and does nothing. Renewals and releases start from the version
 * that this store saw last, without the GET. Expiry is measured by observation: see observations.ts.
 */

import { type Key, StoreMisconfiguredError } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import {
  type Answer,
  DEFAULT_BUDGET_MS,
  type KubernetesApi,
  type LeaseList,
} from "./connection.js";
import type { Found, Step } from "./decide.js";
import { objectNameOf } from "./keys.js";
import { Observations } from "./observations.js";
import { keyOf, type LeaseObject, type Observed } from "./records.js";
import { newObject } from "./records-changes.js";

/** The number of objects processed at a time. */
const CONCURRENCY = 32;
const PAGE = 500;

export class LeaseObjects {
  readonly observations = new Observations();
  readonly #api: KubernetesApi;
  readonly #env: Env;

  constructor(api: KubernetesApi, env: Env) {
    this.#api = api;
    this.#env = env;
  }

  /** Returns the deadline of a call whose caller sets none. */
  deadlineMs(): number {
    return this.#env.clock.monotonic() + DEFAULT_BUDGET_MS;
  }

  /**
   * Returns the outcome of one request, once its change is written.
   * @param fromMemory starts from the version seen last, without the GET
   */
  async settle<Outcome>(
    key: Key,
    decide: (found: Found) => Step<Outcome>,
    deadlineMs: number,
    fromMemory: boolean,
  ): Promise<Outcome> {
    const name = objectNameOf(key);
    const remembered = fromMemory ? this.observations.get(name) : undefined;
    if (remembered) {
      const step = decide(this.#snapshot(remembered, null));
      // A refusal based on memory is not final: the object may have changed.
      if (step.write && (await this.#write(step.write, step, deadlineMs))) return step.outcome;
    }
    for (;;) {
      let found: Found | null = await this.find(key, deadlineMs);
      if (decide(found).write && !found.object.metadata.resourceVersion) {
        found = await this.#create(found.object, deadlineMs);
      }
      if (!found) continue;
      const step = decide(found);
      if (!step.write || (await this.#write(step.write, step, deadlineMs))) return step.outcome;
    }
  }

  /** Reads the object; if it is missing, returns the one to create. */
  async find(key: Key, deadlineMs: number): Promise<Found> {
    const name = objectNameOf(key);
    const answer = await this.#api.send({ verb: "get", name, deadlineMs });
    if (answer.status === 404) {
      this.observations.forget(name);
      const nowMs = this.#env.clock.monotonic();
      const observed = { object: newObject(name, key), receivedMs: nowMs, trustFromMs: null };
      return this.#snapshot(observed, answer.wallMs);
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

  /**
   * @returns null if another client wrote first
   */
  async #create(body: LeaseObject, deadlineMs: number): Promise<Found | null> {
    const answer = await this.#api.send({ verb: "create", body, deadlineMs });
    return answer.status === 409 ? null : this.#received(answer);
  }

  /**
   * @returns false if the object has a newer version
   */
  async #write(body: LeaseObject, step: Step<unknown>, deadlineMs: number): Promise<boolean> {
    const answer = await this.put(body, deadlineMs);
    if (answer.status >= 300) return false;
    const nowMs = this.#env.clock.monotonic();
    this.observations.note(answer.body as LeaseObject, nowMs, step.trustFromMs);
    return true;
  }

  /** A status of 300 or more means that the object has a newer version, or is gone. */
  put(body: LeaseObject, deadlineMs: number): Promise<Answer> {
    const { name } = body.metadata;
    return this.#api.send({ verb: "update", name, body, deadlineMs });
  }

  #received({ body, wallMs }: Answer): Found {
    const nowMs = this.#env.clock.monotonic();
    return this.#snapshot(this.observations.note(body as LeaseObject, nowMs), wallMs);
  }

  #snapshot(observed: Observed, serverWallMs: number | null): Found {
    const { clock } = this.#env;
    return { ...observed, nowMs: clock.monotonic(), wallMs: clock.wall(), serverWallMs };
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
      const nowMs = this.#env.clock.monotonic();
      for (const object of items) found.push(this.observations.note(object, nowMs));
      next = metadata.continue || undefined;
      if (next === undefined) return found;
    }
  }
}

export async function inParallel<T>(
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, items.length) }, worker));
}

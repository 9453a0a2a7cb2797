/**
 * How requests become writes. Each reads one object, decides by the rules and puts it back under the
 * resourceVersion that it was read with:
 *
 *   GET ──▶ decide ──▶ PUT ──▶ 200: written
 *    ▲         │         ├──▶ 409, 404: another client was faster; read again
 *    │         │         └──▶ no answer: unknown (`maybe`)
 *    │         └──▶ nothing to write: the outcome
 *    └── 404: POST a free object, then go on with it
 *
 * A write that arrives late finds another version and does nothing. Renewals and releases begin with
 * the version that this store has seen last, without the GET. Expiry is known by observation: see
 * observations.ts.
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

/** Objects that are worked on at a time. */
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

  /** Until when a call without a time limit may take. */
  deadlineMs(): number {
    return this.#env.clock.monotonic() + DEFAULT_BUDGET_MS;
  }

  /**
   * The outcome of one request, once what it changes is written.
   * @param fromMemory begins with the version seen last, without the GET
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
      const step = decide(this.#now(remembered, null));
      // What memory refuses, the object itself may allow.
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

  /** What there is, or would have to be created. */
  async find(key: Key, deadlineMs: number): Promise<Found> {
    const name = objectNameOf(key);
    const answer = await this.#api.send({ verb: "get", name, deadlineMs });
    if (answer.status === 404) {
      this.observations.forget(name);
      const nowMs = this.#env.clock.monotonic();
      const observed = { object: newObject(name, key), receivedMs: nowMs, trustFromMs: null };
      return this.#now(observed, answer.wallMs);
    }
    const found = this.#received(answer);
    const owner = keyOf(found.object);
    if (owner && (owner.namespace !== key.namespace || owner.resource !== key.resource)) {
      throw new StoreMisconfiguredError(
        `the Lease object ${name} belongs to the resource "${owner.resource}" of the namespace "${owner.namespace}", by its annotations: delete it if they were edited`,
      );
    }
    return found;
  }

  /** @returns null if another client was faster */
  async #create(body: LeaseObject, deadlineMs: number): Promise<Found | null> {
    const answer = await this.#api.send({ verb: "create", body, deadlineMs });
    return answer.status === 409 ? null : this.#received(answer);
  }

  /** @returns false if there is another version by now */
  async #write(body: LeaseObject, step: Step<unknown>, deadlineMs: number): Promise<boolean> {
    const answer = await this.put(body, deadlineMs);
    if (answer.status >= 300) return false;
    const nowMs = this.#env.clock.monotonic();
    this.observations.note(answer.body as LeaseObject, nowMs, step.trustFromMs);
    return true;
  }

  /** A status of 300 or more: there is another version by now. */
  put(body: LeaseObject, deadlineMs: number): Promise<Answer> {
    const { name } = body.metadata;
    return this.#api.send({ verb: "update", name, body, deadlineMs });
  }

  #received({ body, wallMs }: Answer): Found {
    const nowMs = this.#env.clock.monotonic();
    return this.#now(this.observations.note(body as LeaseObject, nowMs), wallMs);
  }

  #now(observed: Observed, serverWallMs: number | null): Found {
    const { clock } = this.#env;
    return { ...observed, nowMs: clock.monotonic(), wallMs: clock.wall(), serverWallMs };
  }

  /** All objects that a selector finds. */
  async all(selector: Readonly<Record<string, string>>): Promise<Observed[]> {
    const deadlineMs = this.deadlineMs();
    const found: Observed[] = [];
    let next: string | undefined;
    do {
      const rest: Record<string, string> = next === undefined ? {} : { continue: next };
      const query = { ...selector, limit: String(PAGE), ...rest };
      const { status, body } = await this.#api.send({ verb: "list", query, deadlineMs });
      if (status === 410) {
        // It took too long, and what the first pages were of is forgotten.
        found.length = 0;
        next = undefined;
        continue;
      }
      const { items, metadata } = body as LeaseList;
      const nowMs = this.#env.clock.monotonic();
      for (const object of items) found.push(this.observations.note(object, nowMs));
      next = metadata.continue || undefined;
    } while (next !== undefined);
    return found;
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

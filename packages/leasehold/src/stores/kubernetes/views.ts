/** Reads single leases and pages of a namespace, and collects grants that ended long ago. */

import {
  cursorAfter,
  type Key,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
  rules,
} from "../../lease/index.js";
import { inParallel, type LeaseObjects } from "./objects.js";
import { freedWallMsOf, GRANT_LABEL, isHeld, isOurs, keyOf, recordOf, viewIn } from "./records.js";
import { forgottenIn } from "./records-changes.js";
import { selectorOf } from "./watch.js";

export class Views {
  readonly #objects: LeaseObjects;

  constructor(objects: LeaseObjects) {
    this.#objects = objects;
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    const deadlineMs = this.#objects.deadlineMs();
    return inParallel(keys, async (key) =>
      viewIn(key, await this.#objects.find(key, deadlineMs), this.#objects.times().nowMs),
    );
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    const { namespace, prefix = "", states, renewedOnly = false, limit = 100, cursor } = query;
    const after = cursor === undefined ? undefined : resourceOfCursor(cursor);
    const found: LeaseView[] = [];
    for (const observed of await this.#objects.all(selectorOf(namespace))) {
      const key = keyOf(observed.object);
      if (key?.namespace !== namespace || !key.resource.startsWith(prefix)) continue;
      if (after !== undefined && byBytes(key.resource, after) <= 0) continue;
      const view = viewIn(key, observed, this.#objects.times().nowMs);
      if (!view || (states && !states.includes(view.state))) continue;
      if (!renewedOnly || view.renewedAt !== null) found.push(view);
    }
    found.sort((a, b) => byBytes(a.resource, b.resource));
    const items = found.slice(0, limit);
    const last = found.length > items.length ? items.at(-1) : undefined;
    return { items, nextCursor: last ? cursorAfter(last.resource) : null };
  }

  /** Keeps the objects, as other clients expect, and removes their annotations about ended grants. */
  async collect(olderThanMs: number): Promise<number> {
    const granted = await this.#objects.all({ labelSelector: GRANT_LABEL });
    const collected = await inParallel(granted, async (observed) => {
      const { object } = observed;
      const [key, record] = [keyOf(object), recordOf(observed)];
      const times = this.#objects.times();
      if (!key || !record || !isOurs(object, record)) return false;
      if (rules.excludes(record, times.nowMs)) return false;
      const endedMs = isHeld(object)
        ? times.nowMs - record.expiresAtMs
        : times.wallMs - freedWallMsOf(object);
      if (endedMs <= olderThanMs) return false;
      return this.#objects.put(forgottenIn(object, key, times), this.#objects.deadlineMs());
    });
    return collected.filter(Boolean).length;
  }
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

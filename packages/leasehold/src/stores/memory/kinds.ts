/** The published kinds in this process's memory. */
import type { Page } from "../../core/index.js";
import { kindCursor, placeOfCursor } from "../../tasks/kinds/cursor.js";
import {
  type KindKey,
  type KindQuery,
  type KindStore,
  type KindView,
  MOST_KINDS,
  type PublishOutcome,
  type PublishRequest,
} from "../../tasks/kinds/port.js";
import type { Json } from "../../tasks/port.js";
import { compareUtf8 } from "./keys.js";
import { pageOf } from "./page.js";
import type { MemoryTaskState } from "./task-state.js";
import { iso } from "./task-views.js";

/** Times are the store's, in milliseconds. */
interface Published {
  readonly kind: string;
  readonly version: number;
  readonly schema: string;
  readonly publishedAtMs: number;
  readonly changedAtMs: number;
  readonly by: string;
}
/** By namespace, then by kind and version; shared by all stores of one name. */
export type Kinds = Map<string, Map<string, Published>>;

export class MemoryKindStore implements KindStore {
  readonly #kinds: Kinds;
  readonly #state: MemoryTaskState;

  /** @param state whose clock is that of the kinds */
  constructor(kinds: Kinds, state: MemoryTaskState) {
    [this.#kinds, this.#state] = [kinds, state];
  }

  async publish({ namespace, ...request }: PublishRequest): Promise<PublishOutcome> {
    const all = this.#of(namespace);
    const name = nameOf(request);
    const before = all.get(name);
    if (before?.schema === request.schema) return { status: "published", change: "none" };
    if (!before && all.size >= MOST_KINDS) return { status: "full" };
    const nowMs = this.#state.nowMs();
    const { publishedAtMs = nowMs } = before ?? {};
    all.set(name, { ...request, publishedAtMs, changedAtMs: nowMs });
    return { status: "published", change: before ? "changed" : "added" };
  }

  async schemas(keys: readonly KindKey[]): Promise<readonly (string | null)[]> {
    return keys.map((key) => this.#of(key.namespace).get(nameOf(key))?.schema ?? null);
  }

  async list({ namespace, kind, limit = 20, cursor }: KindQuery): Promise<Page<KindView>> {
    const after = placeOfCursor(cursor);
    const sorted = [...this.#of(namespace).values()]
      .filter((one) => (kind === undefined || one.kind === kind) && compare(one, after) > 0)
      .sort(compare);
    const { found, last } = pageOf(sorted, limit, () => true);
    return { items: found.map(viewOf), nextCursor: last && kindCursor(last) };
  }

  async withdraw({ namespace, ...key }: KindKey): Promise<boolean> {
    return this.#of(namespace).delete(nameOf(key));
  }

  #of(namespace: string): Map<string, Published> {
    let kinds = this.#kinds.get(namespace);
    if (!kinds) {
      kinds = new Map();
      this.#kinds.set(namespace, kinds);
    }
    return kinds;
  }
}

type Place = Pick<KindKey, "kind" | "version">;

function nameOf({ kind, version }: Place): string {
  return kindCursor({ kind, version });
}

function compare(a: Place, b: Place): number {
  return compareUtf8(a.kind, b.kind) || a.version - b.version;
}

function viewOf({ publishedAtMs, changedAtMs, schema, ...one }: Published): KindView {
  const { kind, version, by } = one;
  return {
    kind,
    version,
    schema: JSON.parse(schema) as Json,
    publishedAt: iso(publishedAtMs),
    changedAt: iso(changedAtMs),
    by,
  };
}

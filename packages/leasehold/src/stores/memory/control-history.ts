/** Ended grants in this process's memory. */
import type { GrantHistory, GrantHistoryQuery } from "../../control/index.js";
import type { Clock } from "../../env/index.js";
import { InvalidOptionError, type Key, type LeaseView, type Page } from "../../lease/index.js";

/** The newest grants kept per namespace, whatever their age, because memory is finite. */
const KEPT = 100_000;
/** Grants above the limit before the oldest are dropped, all of them at once. */
const SLACK = 10_000;

interface Entry {
  /** Counts all entries ever added; the cursor of a page. */
  readonly order: number;
  readonly grant: LeaseView;
  readonly endedAtMs: number;
}

interface Namespace {
  /** In insertion order. */
  entries: Entry[];
  readonly byName: Map<string, LeaseView>;
}

export class MemoryGrantHistory implements GrantHistory {
  readonly #clock: Clock;
  readonly #namespaces = new Map<string, Namespace>();
  #added = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async append(grants: readonly LeaseView[]): Promise<void> {
    for (const { ...grant } of grants) {
      const namespace = this.#namespaces.get(grant.namespace) ?? this.#open(grant.namespace);
      const { entries, byName } = namespace;
      const name = nameOf(grant.resource, grant.grantId);
      if (byName.has(name)) continue;
      byName.set(name, grant);
      const { expiresAt } = grant;
      const endedAtMs = expiresAt === null ? this.#clock.wall() : Date.parse(expiresAt);
      entries.push({ order: ++this.#added, grant, endedAtMs });
      if (entries.length > KEPT + SLACK) keepOnly(namespace, (_, index) => index >= SLACK);
    }
  }

  async list(query: GrantHistoryQuery): Promise<Page<LeaseView>> {
    const { namespace, resource, states, limit = 100, cursor } = query;
    if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) {
      throw new InvalidOptionError("cursor", "must come from a page of ended grants");
    }
    const before = cursor === undefined ? Infinity : Number(cursor);
    const found = (this.#namespaces.get(namespace)?.entries ?? []).filter(
      ({ order, grant }) =>
        order < before &&
        (resource === undefined || grant.resource === resource) &&
        (!states || states.some((state) => state === grant.state)),
    );
    const page = found.slice(-limit).reverse();
    const last = page.at(-1);
    return {
      items: page.map(({ grant }) => grant),
      nextCursor: last && found.length > page.length ? String(last.order) : null,
    };
  }

  async find({ namespace, resource }: Key, grantId: string): Promise<LeaseView | null> {
    return this.#namespaces.get(namespace)?.byName.get(nameOf(resource, grantId)) ?? null;
  }

  async collect(olderThanMs: number): Promise<number> {
    const untilMs = this.#clock.wall() - olderThanMs;
    let collected = 0;
    for (const namespace of this.#namespaces.values()) {
      collected += keepOnly(namespace, ({ endedAtMs }) => endedAtMs > untilMs);
    }
    return collected;
  }

  #open(name: string): Namespace {
    const namespace: Namespace = { entries: [], byName: new Map() };
    this.#namespaces.set(name, namespace);
    return namespace;
  }
}

/** Returns the number of dropped entries. */
function keepOnly(namespace: Namespace, keep: (entry: Entry, index: number) => boolean): number {
  const { entries, byName } = namespace;
  namespace.entries = entries.filter((entry, index) => {
    const kept = keep(entry, index);
    if (!kept) byName.delete(nameOf(entry.grant.resource, entry.grant.grantId));
    return kept;
  });
  return entries.length - namespace.entries.length;
}

/** Names contain no NUL. */
function nameOf(resource: string, grantId: string): string {
  return `${resource}\0${grantId}`;
}

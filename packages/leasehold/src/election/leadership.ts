/**
 * Reads from listed leases who leads what. A name does not distinguish a lock from an election, so the
 * grants of elections, singletons and shards carry a mark in their metadata:
 *
 *   { "leasehold": "elector" }        a term of an Elector
 *   { "leasehold": "singleton" }      of a Singleton
 *   { "leasehold": "coordinator" }    NAME/coordinator of Shards
 *   { "leasehold": "member" }         NAME/members/M
 *   { "leasehold": "shard" }          NAME/shards/N
 *
 * A holder of another version sets no mark and is not listed. The mark is for display: no decision uses it.
 */
import type { AcquireOptions, LeaseView } from "../lease/index.js";

const MARK = "leasehold";
const MARKS = ["elector", "singleton", "coordinator", "member", "shard"] as const;
type Mark = (typeof MARKS)[number];

/** The metadata of a grant with its mark; the caller's own metadata takes precedence. */
export function markedAs(
  mark: Mark,
  { defaults }: { readonly defaults: AcquireOptions },
  metadata: Record<string, string> | undefined = defaults.metadata,
): Record<string, string> {
  return { [MARK]: mark, ...metadata };
}

/** Null for the lease of something else. */
export function markOf({ metadata }: Pick<LeaseView, "metadata">): Mark | null {
  // Most leases have none, and there may be ten thousand.
  if (!metadata?.includes(`"${MARK}"`)) return null;
  try {
    const { [MARK]: mark } = JSON.parse(metadata) as { [MARK]?: unknown };
    return MARKS.find((each) => each === mark) ?? null;
  } catch {
    return null;
  }
}

export interface Leadership {
  readonly kind: "elector" | "singleton";
  readonly view: LeaseView;
}

export interface ShardLeadership {
  readonly name: string;
  /** The last term's; null where none is known. */
  readonly coordinator: LeaseView | null;
  /** Those that live, by name. */
  readonly members: readonly { readonly member: string; readonly view: LeaseView }[];
  /** The last grant of each, by number. */
  readonly shards: readonly { readonly shard: number; readonly view: LeaseView }[];
}

/** @param views the last grants of resources, marked ones among others */
export function leadershipOf(views: readonly LeaseView[]): {
  readonly elections: readonly Leadership[];
  readonly shards: readonly ShardLeadership[];
} {
  const elections: Leadership[] = [];
  const groups = new Map<string, GroupOfShards>();
  const groupOf = (name: string) => {
    const group = groups.get(name) ?? { name, coordinator: null, members: [], shards: [] };
    groups.set(name, group);
    return group;
  };
  for (const view of views) {
    const mark = markOf(view);
    if (mark === "elector" || mark === "singleton") elections.push({ kind: mark, view });
    else if (mark !== null) addTo(groupOf, mark, view);
  }
  for (const { shards } of groups.values()) shards.sort((a, b) => a.shard - b.shard);
  return { elections, shards: [...groups.values()] };
}

interface GroupOfShards extends ShardLeadership {
  coordinator: LeaseView | null;
  readonly members: { member: string; view: LeaseView }[];
  readonly shards: { shard: number; view: LeaseView }[];
}

const WITHIN = {
  coordinator: /^(.+)\/coordinator()$/s,
  member: /^(.+?)\/members\/(.+)$/s,
  shard: /^(.+)\/shards\/(\d{1,4})$/s,
} as const;

function addTo(
  groupOf: (name: string) => GroupOfShards,
  mark: keyof typeof WITHIN,
  view: LeaseView,
): void {
  const [, name, part = ""] = WITHIN[mark].exec(view.resource) ?? [];
  if (name === undefined) return;
  if (mark === "coordinator") groupOf(name).coordinator = view;
  else if (mark === "shard") groupOf(name).shards.push({ shard: Number(part), view });
  else if (view.state === "live") groupOf(name).members.push({ member: part, view });
}

export interface TermRecord {
  readonly view: LeaseView;
  /** From the end of the term before it to its beginning, by the store's clock; null: not known. */
  readonly vacantMs: number | null;
}

/** @param grants of one resource, the newest first */
export function termsOf(grants: readonly LeaseView[]): TermRecord[] {
  return grants.map((view, index) => {
    const endedAt = grants[index + 1]?.expiresAt ?? null;
    if (endedAt === null || view.grantedAt === null) return { view, vacantMs: null };
    return { view, vacantMs: Math.max(0, Date.parse(view.grantedAt) - Date.parse(endedAt)) };
  });
}

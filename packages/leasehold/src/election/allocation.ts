/** Decides which member works on which shard, with as few moves as possible. */

/** The member of each shard, by its number; null if the shard has none. */
export type Allocation = readonly (string | null)[];

/**
 * Spreads shards evenly: members differ by one shard at most. A member keeps its shards unless it has
 * more than its part, so a member that joins or leaves moves at most ceil(count / members) shards.
 * @param members the live members, each once
 */
export function allocate(last: Allocation, members: readonly string[]): Allocation {
  // Without members no loop below has anything to share out, and each shard has none.
  const least = Math.floor(last.length / members.length);
  // This many members get one more shard: those that have most now, so that few shards move.
  let larger = last.length % members.length;
  const kept = new Map<string | null, number[]>(members.map((member) => [member, []]));
  const free: number[] = [];
  for (const [shard, member] of last.entries()) {
    const own = kept.get(member);
    if (own) own.push(shard);
    else free.push(shard);
  }
  const byLoad = [...kept.values()].sort((a, b) => b.length - a.length);
  const parts = new Map<number[], number>();
  for (const own of byLoad) {
    parts.set(own, larger > 0 ? least + 1 : least);
    larger -= 1;
  }
  for (const [own, part] of parts) free.push(...own.splice(part));
  for (const [own, part] of parts) own.push(...free.splice(0, part - own.length));
  const next: (string | null)[] = last.map(() => null);
  for (const [member, shards] of kept) for (const shard of shards) next[shard] = member;
  return next;
}

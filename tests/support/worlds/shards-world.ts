/** Members of one group of shards, in memory under a manual clock. */
import {
  type ShardsOptions,
  type ShardWork,
  shardsOver,
} from "../../../packages/leasehold/src/election/shards.js";
import { LeaseClient, type LeaseStore } from "../../../packages/leasehold/src/lease/index.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";
import { faultyStore } from "../faults/faulty-store.js";

export const SHARDS_TTL_MS = 3_000;

export function shardsWorld(
  count: number,
  options: Parameters<typeof manualEnv>[0] = {},
  more: Pick<ShardsOptions, "pollIntervalMs"> = {},
) {
  const env = manualEnv(options);
  const store = faultyStore(env);
  /** Of each shard: who works on it now. */
  const working = new Map<number, string>();
  let overlaps = 0;
  let starts = 0;
  const join = (
    member: string,
    drain: () => Promise<void> = async () => {},
    graceMs = 60_000,
    own: { readonly count?: number; readonly holder?: string } = {},
  ) => {
    let isCut = false;
    const unlessCut =
      <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) =>
      (...args: Args) =>
        isCut ? new Promise<never>(() => {}) : call(...args);
    const { acquire, renew, release, get, list } = store;
    const cuttable: LeaseStore = {
      ...store,
      acquire: unlessCut(acquire),
      renew: unlessCut(renew),
      release: unlessCut(release),
      get: unlessCut(get),
      list: unlessCut(list),
    };
    const leases = new LeaseClient(
      cuttable,
      { env, holder: own.holder ?? member },
      { close: undefined },
    );
    const work: ShardWork = async (shard, lease) => {
      starts += 1;
      if (working.has(shard)) overlaps += 1;
      working.set(shard, member);
      await new Promise<void>((resolve) => {
        lease.signal.addEventListener("abort", () => resolve());
      });
      await drain();
      working.delete(shard);
    };
    const shards = shardsOver(leases, "jobs", {
      count: own.count ?? count,
      member,
      work,
      ttlMs: SHARDS_TTL_MS,
      graceMs,
      ...more,
    }).start();
    /** Nothing of its own arrives any more. */
    const cut = () => {
      isCut = true;
    };
    return { leases, shards, cut };
  };
  const loads = () => {
    const sums: Record<string, number> = {};
    for (const member of working.values()) sums[member] = (sums[member] ?? 0) + 1;
    return sums;
  };
  return {
    clock: env.clock,
    store,
    join,
    loads,
    working,
    overlaps: () => overlaps,
    starts: () => starts,
  };
}

/** The suite on an engine whose keys others may change between load and save: memory, with versions. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { storeOverEngine } from "../../../../tests/support/suites/store-over-engine.js";
import { nextTurn } from "../env/index.js";
import { ClosedError, type Failed, type LeaseRecord, rules } from "../lease/index.js";
import { MemoryLeaseState, MemoryLeaseStore } from "../stores/memory/store.js";
import { exerciseLeaseStore, manualEnv } from "../testing/index.js";
import { type Change, type Engine, type Loaded, mayStillSave } from "./index.js";

/** A record is its own version: each write makes a new one. */
type Version = LeaseRecord | null;

const aheadOf = ({ queue }: Loaded<unknown>, leaseId: string) =>
  queue?.positions.get(leaseId)?.ahead;

/** @param turn waits until others have had theirs; throws once the store is closed */
function engineOver(memory: MemoryLeaseState, turn: () => Promise<void>): Engine<Version> {
  const save = (change: Change<Version>): boolean => {
    const transaction = memory.begin();
    const { nowMs } = transaction;
    const { record, leastToken } = transaction.load(change, undefined);
    const current = { record, tokenFloor: leastToken - 1 };
    const isSaved = record === change.version && mayStillSave(change, current, nowMs);
    const { namespace, resource, changesGrant, joins, served, withdrawn, wakes } = change;
    const key = { namespace, resource, version: null, changesGrant, joins };
    const isFree = record === null || !rules.excludes(record, nowMs);
    const passesOn =
      isFree && withdrawn.some((id) => aheadOf(transaction.load(change, id), id) === 0);
    const decided = { record: change.record, served, withdrawn, wakes: wakes || passesOn };
    // Waiters join in any case. They leave only with what was decided.
    const nothing = { record: null, served: null, withdrawn: [], wakes: false };
    transaction.save({ ...key, ...(isSaved ? decided : nothing) });
    return isSaved;
  };
  return {
    async load(keys, needsQueue) {
      await turn();
      const transaction = memory.begin();
      const loaded = keys.map((key) => {
        const { queue, record, ...rest } = transaction.load(key, undefined);
        const positions = new Map(
          key.leaseIds.flatMap((id) => [...(transaction.load(key, id).queue?.positions ?? [])]),
        );
        const loaded = needsQueue && queue ? { ...queue, positions } : null;
        return { ...rest, record, version: record, queue: loaded };
      });
      return { nowMs: transaction.nowMs, keys: loaded };
    },
    async save(changes) {
      await turn();
      return changes.map(save);
    },
    failed(error): Failed {
      if (!(error instanceof ClosedError)) throw error;
      return { status: "failed", applied: "no", retryable: false, error };
    },
  };
}

exerciseLeaseStore({
  name: "the kit",
  vitest: { afterAll, beforeAll, describe, expect, it },
  async open() {
    const env = manualEnv({ seed: 7 });
    const state = new MemoryLeaseState(env.clock);
    const memory = new MemoryLeaseStore(state);
    const { store, interleave } = storeOverEngine(
      memory,
      (assertOpen) =>
        engineOver(state, async () => {
          await nextTurn();
          assertOpen();
        }),
      { textOf: (ms) => state.wallAt(ms) },
    );
    return {
      store,
      interleave,
      advance: (ms) => env.clock.advance(ms),
      close: () => store.close(),
    };
  },
});

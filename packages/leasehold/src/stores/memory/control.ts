/** Keys, the audit, pauses and limits in this process's memory. */
import {
  type AuditEntry,
  type AuditLog,
  type AuditQuery,
  type Backing,
  beforeSeq,
  CHAIN_BEGIN,
  type Control,
  chained,
  inTwoSteps,
  type NewAuditEntry,
  NO_LIMITS,
  type Pause,
  type PauseActs,
  type PauseKey,
  type PauseStore,
  type TenantLimitActs,
  type TenantLimitStore,
  type TenantLimits,
} from "../../control/index.js";
import type { Clock } from "../../env/index.js";
import { compareUtf8 } from "../../env/index.js";
import type { Page } from "../../lease/index.js";
import { memoryKeys, type StoredKey } from "./control-api-keys.js";
import type { MemoryOnceStore } from "./once.js";
import { backFrom, pageOf } from "./page.js";
import type { MemoryScheduleStore } from "./schedules.js";
import { SortedList } from "./sorted-list.js";
import type { MemoryLeaseStore } from "./store.js";
import type { MemoryTaskStore } from "./tasks.js";

/** State shared by all stores of one name. It uses the clock of the env that created it. */
export class MemoryControlState {
  readonly entries: AuditEntry[] = [];
  readonly limits = new Map<string, TenantLimits>();
  readonly pauses = new Map<string, Pause>();
  /** The same, in the order of lists. */
  readonly sortedPauses = new SortedList<Pause>(comparePauses);
  /** In insertion order. */
  readonly keys = new Map<string, StoredKey>();
  keysAdded = 0;
  readonly #clock: Clock;
  readonly #originMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#originMs = clock.wall() - clock.monotonic();
  }

  /**
   * Follows the monotonic clock: a jump of the wall clock neither shortens nor extends a key's life.
   */
  nowMs(): number {
    return this.#originMs + this.#clock.monotonic();
  }

  nowText(): string {
    return new Date(this.nowMs()).toISOString();
  }
}

export function memoryControl(
  state: MemoryControlState,
  leases: MemoryLeaseStore,
  tasks: MemoryTaskStore,
  once: MemoryOnceStore,
  schedules: MemoryScheduleStore,
  backing: Backing,
): Control {
  const audit = auditOf(state);
  const keys = memoryKeys(state);
  const pauses = pausesOf(state, leases);
  const limits = limitsOf(state);
  const taskLimits = tasks.limits;
  const stores = { leases, tasks, once, schedules, taskLimits, backing };
  const actors = { ...stores, keys, pauses, limits };
  const kept = { audit, keys, pauses, limits, actors, leasesApart: false };
  return { ...kept, ...inTwoSteps(audit, actors) };
}

function auditOf(state: MemoryControlState): AuditLog {
  const { entries } = state;
  return {
    async append(added: readonly NewAuditEntry[]) {
      return added.map((entry) => {
        const next = chained(entries.at(-1) ?? CHAIN_BEGIN, entry, state.nowText());
        entries.push(next);
        return next;
      });
    },
    async list(query: AuditQuery): Promise<Page<AuditEntry>> {
      const { namespace, target, actions, limit = 100 } = query;
      // The numbers have no gaps.
      const end = Math.min(entries.length, (beforeSeq(query) ?? Infinity) - 1);
      const { found, last } = pageOf(
        backFrom(entries, end),
        limit,
        (entry) =>
          (namespace === null || entry.namespace === namespace) &&
          (target === undefined || entry.target === target) &&
          (!actions || actions.includes(entry.action)),
      );
      return { items: found, nextCursor: last && String(last.seq) };
    },
    read: async (afterSeq, limit) => entries.slice(afterSeq, afterSeq + limit),
    head: async () => {
      const { seq, hash } = entries.at(-1) ?? CHAIN_BEGIN;
      return { seq, hash };
    },
  };
}

function pausesOf(state: MemoryControlState, leases: MemoryLeaseStore): PauseStore & PauseActs {
  const nameOf = ({ namespace, kind, name }: PauseKey) => JSON.stringify([namespace, kind, name]);
  const apply = ({ namespace, kind, name }: PauseKey, paused: boolean) => {
    if (kind === "resource") leases.setPaused({ namespace, resource: name }, paused);
  };
  return {
    async list(namespace) {
      const { sortedPauses } = state;
      if (namespace === null) return [...sortedPauses.from()];
      const found: Pause[] = [];
      for (const pause of sortedPauses.from({ ...FIRST_PAUSE, namespace })) {
        if (pause.namespace !== namespace) break;
        found.push(pause);
      }
      return found;
    },
    async set(pause) {
      const before = state.pauses.get(nameOf(pause));
      const stored = { ...pause, since: before?.since ?? state.nowText() };
      state.pauses.set(nameOf(pause), stored);
      if (before) state.sortedPauses.delete(before);
      state.sortedPauses.add(stored);
      apply(pause, true);
      return stored;
    },
    async clear(key) {
      apply(key, false);
      const before = state.pauses.get(nameOf(key));
      if (before) state.sortedPauses.delete(before);
      return state.pauses.delete(nameOf(key));
    },
  };
}

/** No pause of its namespace comes before it. */
const FIRST_PAUSE = { kind: "prefix", name: "", actor: "", reason: "", since: "" } as const;

function comparePauses(a: Pause, b: Pause): number {
  return (
    compareUtf8(a.namespace, b.namespace) ||
    compareUtf8(a.kind, b.kind) ||
    compareUtf8(a.name, b.name)
  );
}

function limitsOf({ limits }: MemoryControlState): TenantLimitStore & TenantLimitActs {
  const read = async (namespace: string) => limits.get(namespace) ?? NO_LIMITS;
  return {
    read,
    async set(namespace, change) {
      const after = { ...(await read(namespace)), ...change };
      limits.set(namespace, after);
      return after;
    },
  };
}

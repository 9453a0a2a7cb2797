/** The limits of kinds and queues, in memory. */

import { compareUtf8 } from "../../env/index.js";
import { type BlockingTask, NAMED_OF_KEY } from "../../tasks/blocked-keys.js";
import { currentOf, permitsOf, started, usedUpUntilMs } from "../../tasks/limits.js";
import {
  type DeclareLimitOutcome,
  type DeclareLimitRequest,
  type LimitView,
  MOST_LIMITS,
  type TaskLimit,
  type TaskLimits,
} from "../../tasks/limits-port.js";
import type { ClaimRequest } from "../../tasks/port.js";
import type { TaskRecord } from "../../tasks/record.js";
import type { KeptLimit, LimitTable, Place } from "./limit-table.js";
import type { MemoryTaskState, Namespace } from "./task-state.js";
import { iso } from "./task-views.js";

/** What the limits let one claim take. */
export class Permits {
  readonly #limits: LimitTable;
  readonly #places = new Map<KeptLimit, number>();
  readonly #nowMs: number;

  constructor({ limits, tasks }: Pick<Namespace, "limits" | "tasks">, nowMs: number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
    if (limits.size === 0) return;
    const live = liveOf(limits, tasks.running(), nowMs);
    for (const kept of limits.all()) {
      const most = kept.limit.running ?? Number.POSITIVE_INFINITY;
      this.#places.set(kept, most - (live.get(kept)?.length ?? 0));
    }
  }

  /** Whether the namespace has limits at all. */
  get areAny(): boolean {
    return this.#places.size > 0;
  }

  readonly allows = (record: Place): boolean =>
    this.#limits.of(record).every((kept) => {
      const places = this.#places.get(kept) ?? 0;
      return places > 0 && permitsOf(kept.limit.rate, kept.window, this.#nowMs) > 0;
    });

  take(record: Place): void {
    for (const kept of this.#limits.of(record)) {
      this.#places.set(kept, (this.#places.get(kept) ?? 0) - 1);
      const { rate } = kept.limit;
      if (rate) kept.window = started(rate, kept.window, this.#nowMs);
    }
  }

  /** When the first of the rates that concern the claim lets tasks start again; infinite: none is used up. */
  nextMs({ queues, kinds }: Pick<ClaimRequest, "queues" | "kinds">): number {
    const claimed = { queue: new Set(queues), kind: kinds && new Set(kinds) };
    const ends = this.#limits.all().flatMap(({ scope, name, limit, window }) => {
      const concerns = claimed[scope]?.has(name) ?? true;
      return (concerns && usedUpUntilMs(limit.rate, window, this.#nowMs)) || [];
    });
    return Math.min(...ends);
  }
}

/** The tasks with a live lease that each limit counts, in one pass: a namespace may have many of both. */
function liveOf(limits: LimitTable, running: readonly TaskRecord[], nowMs: number) {
  const live = new Map<KeptLimit, TaskRecord[]>();
  for (const record of running) {
    if (nowMs >= (record.last?.expiresAtMs ?? 0)) continue;
    for (const kept of limits.of(record)) {
      const counted = live.get(kept);
      if (counted) counted.push(record);
      else live.set(kept, [record]);
    }
  }
  return live;
}

/** @param changed receives each namespace in which more tasks may run than before */
export function memoryLimits(
  state: MemoryTaskState,
  changed: (namespace: Namespace) => void,
): TaskLimits {
  return {
    async declare(request: DeclareLimitRequest): Promise<DeclareLimitOutcome> {
      const { namespace, scope, name, limit, by } = request;
      const place = state.namespace(namespace);
      const before = place.limits.get({ scope, name });
      if (before && sameLimit(before.limit, limit)) return { status: "declared", change: "none" };
      if (!before && place.limits.size >= MOST_LIMITS) return { status: "full" };
      const { running, rate } = limit;
      place.limits.set({
        scope,
        name,
        limit: { running, rate: rate && { limit: rate.limit, perMs: rate.perMs } },
        declaredAtMs: state.nowMs(),
        declaredBy: by,
        window: before?.window,
      });
      changed(place);
      return { status: "declared", change: before ? "changed" : "added" };
    },
    async list(namespace) {
      const place = state.namespace(namespace);
      const nowMs = state.nowMs();
      const live = liveOf(place.limits, place.tasks.running(), nowMs);
      return place.limits
        .all()
        .sort((a, b) => compareUtf8(a.scope, b.scope) || compareUtf8(a.name, b.name))
        .map((kept) => viewOf(namespace, kept, live.get(kept) ?? [], nowMs));
    },
    async remove({ namespace, ...key }) {
      const place = state.namespace(namespace);
      const wasThere = place.limits.delete(key);
      if (wasThere) changed(place);
      return wasThere;
    },
  };
}

function sameLimit(a: TaskLimit, b: TaskLimit): boolean {
  return (
    a.running === b.running && a.rate?.limit === b.rate?.limit && a.rate?.perMs === b.rate?.perMs
  );
}

function viewOf(
  namespace: string,
  kept: KeptLimit,
  live: readonly TaskRecord[],
  nowMs: number,
): LimitView {
  const { scope, name, limit, declaredAtMs, declaredBy, window } = kept;
  const untilMs = usedUpUntilMs(limit.rate, window, nowMs);
  const isFull = limit.running !== null && live.length >= limit.running;
  return {
    namespace,
    scope,
    name,
    ...limit,
    declaredAt: iso(declaredAtMs),
    declaredBy,
    live: live.length,
    by: isFull ? live.slice(0, NAMED_OF_KEY).flatMap(blockingOf) : [],
    started: (limit.rate && currentOf(limit.rate, window, nowMs)?.used) ?? 0,
    usedUpUntil: untilMs === null ? null : iso(untilMs),
  };
}

function blockingOf({ id, last }: TaskRecord): BlockingTask[] {
  if (!last) return [];
  return [{ id, state: "running", holder: last.holder, until: iso(last.expiresAtMs) }];
}

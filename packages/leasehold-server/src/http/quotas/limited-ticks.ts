/** Ticks within the limits of tenants: at its limit, a fire time makes no task and counts as skipped. */
import type { Logger } from "leasehold";
import type { FireRequest, ScheduleStore, TaskListener, Ticking } from "leasehold/internal";

interface Limits {
  /** Reserves room for these tasks; false: there is too little. Rejects if that is unknown: the tick is repeated. */
  readonly reserve: (namespace: string, taskIds: readonly string[]) => Promise<boolean>;
  /** Returns what was reserved for tasks that were not made. */
  readonly giveBack: (namespace: string, unused: number) => void;
  readonly onTaskEvent: TaskListener;
  readonly logger: Logger;
}

export function limitedTicks(
  schedules: ScheduleStore | undefined,
  limits: Limits,
): Pick<ScheduleStore, "ticking"> | undefined {
  const ticking = schedules?.ticking;
  if (!ticking) return undefined;
  const { reserve, giveBack, onTaskEvent, logger } = limits;
  /** Namespaces whose last tick was refused: each refusal is logged once. */
  const refused = new Set<string>();
  const admitted = async (request: FireRequest): Promise<FireRequest> => {
    const { namespace, name: schedule, fires } = request;
    if (fires.length === 0) return request;
    const ids = fires.map(({ id }) => id);
    if (await reserve(namespace, ids)) {
      refused.delete(namespace);
      return request;
    }
    if (!refused.has(namespace)) {
      refused.add(namespace);
      logger.warn(
        { namespace, schedule },
        "schedules make no tasks: the tenant has reached its limit",
      );
    }
    return { ...request, fires: [], skipped: request.skipped + fires.length };
  };
  const fire: Ticking["fire"] = async (wanted, options) => {
    const request = await admitted(wanted);
    const { namespace, fires } = request;
    const outcome = await ticking.fire(request, options);
    if (outcome.status !== "fired") {
      // If it failed, they may have been made all the same, which the next count will show.
      giveBack(namespace, fires.length);
      return outcome;
    }
    const { taskIds, kind, queue } = outcome;
    for (const id of taskIds) {
      onTaskEvent({ type: "enqueued", id, kind, queue, duplicate: false }, namespace);
    }
    return outcome;
  };
  return { ticking: { due: (...page) => ticking.due(...page), fire } };
}

/** Operator actions on tasks, with an audit entry if there is an audit. */
import type { Context } from "hono";
import type { AdminOutcome, TaskKey, TaskState, TaskView } from "leasehold/internal";
import type { BulkAnswer } from "leasehold/internal/wire";
import { callerOf } from "../auth/caller.js";
import { checkOperatesQueue, isLimited } from "../auth/scope.js";
import { invalid, ProblemError } from "../problems.js";
import type { AppEnv } from "../request.js";
import type { Services } from "../services.js";
import { byCaller, controlOf } from "./operator-action.js";
import { reserveForIds, reserveForMatching, withReserved } from "./retry-quota.js";

export type TaskAction = "cancel" | "retry" | "delete";

/** Tasks per statement. */
const STEP = 200;
/** Tasks per bulk request: one transaction locks their rows until the last one is done. */
const MAX_BULK_TASKS = 1_000;
/** Pages that a bulk request reads to find its tasks. */
const MAX_PAGES = 100;

/** The states that each action applies to; by default, a retry and a delete leave pending tasks out. */
const STATES: Readonly<Record<TaskAction, readonly TaskState[]>> = {
  cancel: ["pending", "running"],
  retry: ["dead", "cancelled", "expired", "pending"],
  delete: ["done", "dead", "cancelled", "expired", "pending"],
};

interface Filter {
  readonly states?: readonly TaskState[] | undefined;
  readonly queue?: string | undefined;
  readonly kind?: string | undefined;
  /** ISO 8601. */
  readonly createdBefore?: string | undefined;
}

export interface Bulk {
  readonly operation: TaskAction;
  readonly filter: Filter;
  /** If another number of tasks matches, nothing is done. */
  readonly expected?: number | undefined;
  readonly reason?: string | undefined;
}

/**
 * Runs one operator action on any number of tasks and returns one outcome per task, in order. It also works without an
 * audit.
 * @throws LIMIT_REACHED for a retry of more tasks than the tenant may have at once
 */
export async function runTaskAction(
  services: Services,
  context: Context<AppEnv>,
  operation: TaskAction,
  ids: readonly string[],
  reason: string | undefined,
): Promise<AdminOutcome[]> {
  await checkQueues(services, context, ids);
  const act = () => perform(services, context, operation, ids, reason);
  if (operation !== "retry") return act();
  return withReserved(services, context, await reserveForIds(services, context, ids), act);
}

/** @throws FORBIDDEN if the caller may act on some queues alone, and a task is in another one */
async function checkQueues(
  services: Services,
  context: Context<AppEnv>,
  ids: readonly string[],
): Promise<void> {
  const caller = callerOf(context);
  if (!isLimited(caller)) return;
  const { namespace } = caller;
  for (const id of ids) {
    const task = await services.page(context, 1, () => services.tasks.get({ namespace, id }));
    if (task) checkOperatesQueue(caller, task.queue);
  }
}

async function perform(
  services: Services,
  context: Context<AppEnv>,
  operation: TaskAction,
  ids: readonly string[],
  reason: string | undefined,
  more: object = {},
): Promise<AdminOutcome[]> {
  const { namespace } = callerOf(context);
  const budget = services.budget(context);
  const keys = ids.map((id) => ({ namespace, id }));
  if (!services.control) {
    return budget.change(() => services.tasks[operation](keys));
  }
  const control = controlOf(services);
  const action = {
    ...byCaller(context, reason),
    namespace,
    action: `task.${operation}` as const,
    target: targetOf(ids),
  };
  return budget.change(async () => {
    const outcomes = await control.perform(action, async ({ tasks }) => {
      const value: AdminOutcome[] = [];
      for (const step of stepsOf(keys)) value.push(...(await tasks[operation](step)));
      return { value, details: { ...more, ...detailsOf(ids, value) } };
    });
    emit(services, namespace, operation, ids, outcomes);
    return outcomes;
  });
}

/**
 * Runs an action on the tasks that match a filter: at most {@link MAX_BULK_TASKS}, newest first. Retries no more
 * of them than the tenant may have at once. A pending task that is due already needs no retry, and does not match.
 * @throws LIMIT_REACHED if that is none; INVALID_REQUEST for a state that the action does not apply to: such tasks would
 *   match each repeated request, and hide the rest
 */
export async function runBulkAction(
  services: Services,
  context: Context<AppEnv>,
  { operation, filter, expected, reason }: Bulk,
): Promise<BulkAnswer> {
  controlOf(services);
  checkOperatesQueue(callerOf(context), filter.queue);
  checkStates(operation, filter);
  const ended = STATES[operation].filter((state) => operation === "cancel" || state !== "pending");
  const states = filter.states ?? ended;
  const excludeDue = operation === "retry";
  const { tasks, more } = await matching(services, context, { ...filter, states, excludeDue });
  if (expected !== undefined && (more || tasks.length !== expected)) {
    const found = more ? `more than ${tasks.length}` : tasks.length;
    throw new ProblemError("STATE_CONFLICT", `${found} tasks match, not ${expected}`);
  }
  const { ids, reserved } =
    operation === "retry"
      ? await reserveForMatching(services, context, tasks)
      : { ids: tasks.map(({ id }) => id), reserved: 0 };
  const act = () => perform(services, context, operation, ids, reason, { filter });
  const outcomes = ids.length === 0 ? [] : await withReserved(services, context, reserved, act);
  const changed = outcomes.filter(({ status }) => status === "ok").length;
  const matched = tasks.length;
  const [conflicts, overLimit] = [outcomes.length - changed, matched - ids.length];
  return { matched, changed, conflicts, overLimit, more };
}

/** @throws INVALID_REQUEST */
function checkStates(operation: TaskAction, { states = [] }: Filter): void {
  const wrong = states.find((state) => !STATES[operation].includes(state));
  if (wrong === undefined) return;
  const problem = `must be of ${STATES[operation].join(", ")}: a ${wrong} task allows no ${operation}`;
  throw invalid([{ path: "filter.states", problem }]);
}

async function matching(
  services: Services,
  context: Context<AppEnv>,
  { states = [], queue, kind, createdBefore, excludeDue }: Filter & { excludeDue: boolean },
): Promise<{ tasks: TaskView[]; more: boolean }> {
  const { namespace } = callerOf(context);
  const query = {
    namespace,
    states,
    limit: STEP,
    ...(excludeDue && { excludeDue }),
    ...(queue !== undefined && { queue }),
    ...(kind !== undefined && { kind }),
  };
  const latest = createdBefore === undefined ? Infinity : Date.parse(createdBefore);
  const fits = ({ createdAt }: TaskView) => Date.parse(createdAt) < latest;
  const tasks: TaskView[] = [];
  let cursor: string | undefined;
  let pages = 0;
  do {
    const from = cursor === undefined ? {} : { cursor };
    const part = { ...query, ...from };
    const page = await services.scan(context, () => services.tasks.list(part));
    tasks.push(...page.items.filter(fits));
    cursor = page.nextCursor ?? undefined;
    pages += 1;
  } while (cursor !== undefined && tasks.length <= MAX_BULK_TASKS && pages < MAX_PAGES);
  const more = cursor !== undefined || tasks.length > MAX_BULK_TASKS;
  return { tasks: tasks.slice(0, MAX_BULK_TASKS), more };
}

/** The id of a single task, otherwise their number. An invalid id could be any text, so it is not used. */
function targetOf(ids: readonly string[]): string {
  const [id = ""] = ids;
  return ids.length === 1 && /^[0-9a-f-]{36}$/i.test(id) ? id : `${ids.length} tasks`;
}

function stepsOf(keys: readonly TaskKey[]): TaskKey[][] {
  return Array.from({ length: Math.ceil(keys.length / STEP) }, (_, step) =>
    keys.slice(step * STEP, (step + 1) * STEP),
  );
}

/** For the audit entry: each task with its outcome. */
function detailsOf(ids: readonly string[], outcomes: readonly AdminOutcome[]): object {
  const [only] = outcomes;
  if (only && ids.length === 1) return outcomeDetails(only);
  const changed = outcomes.filter(({ status }) => status === "ok").length;
  const tasks = Object.fromEntries(ids.map((id, index) => [id, outcomes[index]?.status]));
  return { changed, tasks };
}

function outcomeDetails(outcome: AdminOutcome): object {
  if (outcome.status !== "failed") return outcome;
  return { status: outcome.status, applied: outcome.applied, code: outcome.error.code };
}

/** Counts and emits the events that the observed task store would count and emit for these calls. */
function emit(
  { onTaskEvent, env: { telemetry } }: Services,
  namespace: string,
  operation: TaskAction,
  ids: readonly string[],
  outcomes: readonly AdminOutcome[],
): void {
  if (operation === "delete") return;
  const type = operation === "cancel" ? "cancelled" : "retried";
  for (const [index, id] of ids.entries()) {
    const outcome = outcomes[index];
    if (outcome?.status !== "ok") continue;
    telemetry?.count("leasehold.task.events", { event: type });
    onTaskEvent?.({ type, id, state: outcome.state }, namespace);
  }
}

/** A task as the store takes it, from what a program passes. */
import { checkName, checkNewName, withoutUndefined } from "../core/index.js";
import { checkDefaults, checkScheduledAt, type TaskDefinition } from "./define.js";
import { DEFAULTS, type TaskToEnqueue } from "./options.js";
import type { NewTask } from "./port.js";
import { checkTaskId } from "./record.js";

/** @throws INVALID_OPTION */
export async function newTaskOf<Input>(
  definition: TaskDefinition<Input, unknown>,
  task: TaskToEnqueue<Input>,
  namespace: string,
  newId: () => string,
): Promise<NewTask> {
  const { data, scheduledAt, dedupeKey, id, ...overrides } = task;
  const ofKind = { ...DEFAULTS, ...withoutUndefined(definition.defaults) };
  const settings = { ...ofKind, ...withoutUndefined(overrides) };
  checkDefaults(settings);
  if (id !== undefined) checkTaskId(id);
  checkNewName("kind", definition.kind);
  checkNewName("queue", settings.queue);
  if (dedupeKey !== undefined) checkName("dedupeKey", dedupeKey);
  if (scheduledAt !== undefined) checkScheduledAt(scheduledAt);
  return {
    ...settings,
    namespace,
    id: id ?? newId(),
    kind: definition.kind,
    data: await definition.check(data),
    scheduledAt: scheduledAt?.toISOString() ?? null,
    dedupeKey: dedupeKey ?? null,
  };
}

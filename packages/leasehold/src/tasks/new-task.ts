/** A task as the store takes it, from what a program passes. */
import { checkName, checkNewName } from "../lease/index.js";
import { checkScheduledAt, type TaskDefinition } from "./define.js";
import type { TaskToEnqueue } from "./options.js";
import type { NewTask } from "./port.js";
import { checkTaskId } from "./record.js";
import { settingsOf } from "./settings.js";
import { FIRST_VERSION } from "./values.js";

/** @throws INVALID_OPTION */
export async function newTaskOf<Input>(
  definition: TaskDefinition<Input, unknown>,
  task: TaskToEnqueue<Input>,
  namespace: string,
  newId: () => string,
): Promise<NewTask> {
  const { data, scheduledAt, dedupeKey, id, ...overrides } = task;
  const { maxRunMs, startByMs, ...settings } = settingsOf(definition.defaults, overrides);
  if (id !== undefined) checkTaskId(id);
  checkNewName("kind", definition.kind);
  checkNewName("queue", settings.queue);
  if (dedupeKey !== undefined) checkName("dedupeKey", dedupeKey);
  if (scheduledAt !== undefined) checkScheduledAt(scheduledAt);
  const checked = await definition.check(data);
  const concurrency = definition.concurrency?.(data);
  const { version = FIRST_VERSION } = definition;
  return {
    ...settings,
    namespace,
    id: id ?? newId(),
    kind: definition.kind,
    data: checked,
    scheduledAt: scheduledAt?.toISOString() ?? null,
    dedupeKey: dedupeKey ?? null,
    // Older servers do not know them.
    ...(maxRunMs !== null && { maxRunMs }),
    ...(startByMs !== null && { startByMs }),
    ...(version > FIRST_VERSION && { version }),
    ...(concurrency && { concurrency }),
  };
}

/** The names of resources and queues as arguments. */
import { checkName } from "leasehold/internal";
import { UsageError } from "./failures.js";

/** Leases on tasks are listed as resources with this prefix. They are kept with the tasks. */
const TASK_PREFIX = "task:";

/**
 * Parses the name of a resource.
 * @throws INVALID_OPTION for one that no store and no server accepts; UsageError as {@link resourcePrefix}
 */
export function resourceName(name: string): string {
  checkName("resource", name);
  return resourcePrefix(name);
}

/** A key of `once`. @throws INVALID_OPTION */
export function keyName(name: string): string {
  checkName("key", name);
  return name;
}

/** The beginning of keys of `once`; `""` is that of all. @throws INVALID_OPTION */
export function keyPrefix(name: string): string {
  if (name !== "") checkName("prefix", name);
  return name;
}

/** @throws INVALID_OPTION */
export function queueName(name: string): string {
  checkName("queue", name);
  return name;
}

/**
 * Parses a prefix of resources; `""` is that of all.
 * @throws INVALID_OPTION for one that is too long; UsageError for one of a task: in the store of leases it would be
 *   another lease, which holds no task
 */
export function resourcePrefix(name: string): string {
  if (name !== "") checkName("prefix", name);
  if (!name.startsWith(TASK_PREFIX)) return name;
  const id = name.slice(TASK_PREFIX.length);
  const shown = id === "" ? "leasehold tasks" : `leasehold tasks ${id}`;
  throw new UsageError(
    `leases on tasks are kept with the tasks: for one that begins with ${TASK_PREFIX}, see "${shown}", or pause a queue with "leasehold pause --queue NAME"`,
  );
}

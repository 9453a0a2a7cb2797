/** The names of resources as arguments. */
import { UsageError } from "./failures.js";

/** Leases on tasks are listed as resources with this prefix. They are kept with the tasks. */
const TASK_PREFIX = "task:";

/**
 * Parses the name of a resource, or the prefix of some.
 * @throws UsageError for one of a task: in the store of leases it would be another lease, which holds no task
 */
export function resourceName(name: string): string {
  if (!name.startsWith(TASK_PREFIX)) return name;
  const id = name.slice(TASK_PREFIX.length);
  const shown = id === "" ? "leasehold tasks" : `leasehold tasks ${id}`;
  throw new UsageError(
    `leases on tasks are kept with the tasks: for one that begins with ${TASK_PREFIX}, see "${shown}", or pause a queue with "leasehold pause --queue NAME"`,
  );
}

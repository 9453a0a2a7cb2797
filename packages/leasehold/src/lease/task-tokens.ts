/**
 * The tokens of the tasks that this process works on. All tasks of one claim have the same token, so a guard that two tasks
 * pass refuses the one that was claimed first and is slow, although its grant is live. Guards warn of that.
 */
import { warningLogger } from "../env/index.js";

/** The resources of the tasks at work, by their token. */
const atWork = new Map<number, Set<string>>();
/** Tokens of other leases may be as small as these, where a store counts from one. */
const SMALLEST = 1e12;
let logger: ReturnType<typeof warningLogger> | undefined;

export function noteTaskToken(resource: string, token: number): void {
  if (token < SMALLEST) return;
  const resources = atWork.get(token) ?? new Set();
  atWork.set(token, resources.add(resource));
}

export function forgetTaskToken(resource: string, token: number): void {
  const resources = atWork.get(token);
  if (resources?.delete(resource) && resources.size === 0) atWork.delete(token);
}

/** Warns once of a guard that a task passes by the name of something else. */
export function warnOfTaskToken(resource: string, token: number): void {
  const resources = atWork.get(token);
  if (!resources || resources.has(resource)) return;
  logger ??= warningLogger();
  const [task] = resources;
  logger.warn({ resource, task, token }, "a guard got the token of a task for another resource");
}

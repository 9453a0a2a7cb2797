/** Schedules in a store that fails for a while only, tried again: as core/retrying.ts. */
import { Retrying, UNLESS_APPLIED } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import type { ScheduleStore } from "./port.js";

/**
 * A removal is not repeated when its answer is lost: a program may have declared the schedule again.
 * @param open gives the store at each call, so that it can be loaded at the first. It does not tick
 */
export function retryingSchedules(open: () => Promise<ScheduleStore>, env: Env): ScheduleStore {
  const retrying = new Retrying(env);
  return {
    declare: (request, options) =>
      retrying.one(
        async (timeoutMs) => (await open()).declare(request, { ...options, timeoutMs }),
        options,
      ),
    get: (key) => retrying.read(async () => (await open()).get(key)),
    list: (query) => retrying.read(async () => (await open()).list(query)),
    pause: (request) => retrying.call(async () => (await open()).pause(request)),
    resume: (key) => retrying.call(async () => (await open()).resume(key)),
    remove: (key) => retrying.call(async () => (await open()).remove(key), UNLESS_APPLIED),
    runNow: (request) => retrying.one(async () => (await open()).runNow(request)),
  };
}

/** What every process with a worker does for the whole database. */
import type { Env, Repeating } from "../env/index.js";
import type { TaskStores } from "./options.js";
import { startReaper } from "./reaper.js";
import { startTicking } from "./schedules/client.js";

export function startBackground({ tasks, schedules }: TaskStores, env: Env): Repeating {
  const all = [startReaper(tasks, env), startTicking(schedules, env)];
  return {
    async stop() {
      await Promise.all(all.map((work) => work.stop()));
    },
  };
}

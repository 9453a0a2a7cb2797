import { type Env, type Repeating, repeat, sleep } from "../env/index.js";
import type { TaskStores } from "./options.js";
import type { TaskStore } from "./port.js";
import { startTicking } from "./schedules/client.js";

/** A task of a dead worker is claimable this long after its lease at the latest, and some jitter. */
const REAP_EVERY_MS = 500;
const COLLECT_EVERY_MS = 60_000;
/** Tasks that one call deletes at most. */
const COLLECTED_AT_ONCE = 1_000;
const SHORTEST_PAUSE_MS = 10;

/**
 * Returns tasks of expired leases to the queue, about twice a second, and deletes ended tasks that are to be kept no longer,
 * about once a minute, until stopped. Everybody who keeps tasks in a database directly runs one; any number of them may run
 * at once, and a store behind a server (`capabilities.reaps`) needs none here.
 */
export function startReaper(store: TaskStore, env: Env): Repeating {
  if (store.capabilities.reaps) return { stop: () => Promise.resolve() };
  const stopping = new AbortController();
  const reaper = repeat(env, "reap expired tasks", REAP_EVERY_MS, () => store.reap());
  const collector = repeat(env, "collect ended tasks", COLLECT_EVERY_MS, () =>
    collectTasks(store, env, stopping.signal),
  );
  return {
    async stop() {
      stopping.abort();
      await Promise.all([reaper.stop(), collector.stop()]);
    },
  };
}

/**
 * Deletes ended tasks until none is left that is to be kept no longer. After each call it pauses for at least as long as the
 * call took: a busy database answers slowly, and so is asked less often.
 * @internal
 */
export async function collectTasks(
  store: Pick<TaskStore, "collect">,
  { clock }: Pick<Env, "clock">,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const beginMs = clock.monotonic();
    const deleted = await store.collect(COLLECTED_AT_ONCE);
    if (deleted < COLLECTED_AT_ONCE || signal.aborted) return;
    await sleep(clock, Math.max(SHORTEST_PAUSE_MS, clock.monotonic() - beginMs));
  }
}

/** What every process with a worker does for the whole database. */
export function startBackground({ tasks, schedules }: TaskStores, env: Env): Repeating {
  const all = [startReaper(tasks, env), startTicking(schedules, env)];
  return {
    async stop() {
      await Promise.all(all.map((work) => work.stop()));
    },
  };
}

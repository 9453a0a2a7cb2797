/** What the demo does beside tasks, so that the console's pages of schedules and of `once` have something to show. */
import { connect, defineTask, type Env, type Stores } from "leasehold";
import { repeat } from "leasehold/internal";

const SCHEDULE_MS = 10_000;
/** The first caller of a minute works; the other calls of that minute get its result. */
const CALL_MS = 5_000;
const KEEP_MS = 3_600_000;

const sleepTask = defineTask<{ sleep_duration_seconds: number }>("sleep");

export interface Routine {
  /** Resolves when a report that has begun has ended. */
  stop(): Promise<void>;
}

/** Declares a schedule, and counts the tasks once a minute. The caller closes the stores afterwards. */
export async function startRoutine(stores: Stores, env: Env): Promise<Routine> {
  const shared = { ...stores, close: async () => {} };
  const leasehold = await connect(
    { open: async () => shared },
    { namespace: "default", holder: "demo", env },
  );
  await leasehold.tasks.schedule("nap", {
    everyMs: SCHEDULE_MS,
    kind: sleepTask,
    data: { sleep_duration_seconds: 1 },
  });
  const report = () => {
    const minute = new Date(env.clock.wall()).toISOString().slice(0, 16);
    const options = { keepMs: KEEP_MS, waitMs: 0 };
    return leasehold.once(`report:${minute}`, options, () => leasehold.tasks.counts());
  };
  const reporting = repeat(env, "count the tasks", CALL_MS, report);
  return {
    async stop() {
      await reporting.stop();
      await leasehold.close();
    },
  };
}

/**
 * Makes tasks at a steady rate, on one node at a time. What it should be doing (running, rate) is
 * stored, so that start, stop and status answer alike on every instance; who does it is
 * said by the lease on GENERATOR_RESOURCE.
 */
import type { AnyLease, Env, Lease, Leasehold, Singleton, Stores } from "leasehold";
import { DEFAULTS, defaultTtlMs, type NewTask, sleep, taskIds } from "leasehold/internal";
import { GENERATOR_RESOURCE } from "./shared.js";
import type { GeneratorState } from "./state.js";

/** How often the wanted state is read, and tasks are added, while generating. */
const TICK_MS = 200;
/** After a pause the backlog of the rate is not made up for: at most this much is added at once. */
const LONGEST_BURST_MS = 1_000;

interface Generating {
  readonly leasehold: Leasehold<AnyLease>;
  /** Where the tasks go. */
  readonly tasks: Stores["tasks"];
  readonly state: Pick<GeneratorState, "read">;
  readonly env: Env;
  /** The lease of the node that generates, in milliseconds. Default 5,000, or what the store allows that is nearest: a gap few would notice. */
  readonly ttlMs?: number | undefined;
}

/** Contends at once; generates while it holds the lease and the stored state says so. */
export function startGenerator(generating: Generating): Singleton {
  const { leasehold, ttlMs = defaultTtlMs(leasehold.capabilities.ttl, 5_000) } = generating;
  const work = (lease: Lease) => generate(generating, lease);
  return leasehold.singleton(GENERATOR_RESOURCE, work, { ttlMs }).start();
}

async function generate(
  { leasehold: { namespace }, tasks, state, env }: Generating,
  lease: Lease,
): Promise<void> {
  const { clock, logger } = env;
  const { token } = lease;
  const newTask = sleepTasks(env, namespace);
  let wasRunning: boolean | undefined;
  let lastMs = clock.monotonic();
  let owed = 0;
  while (!lease.signal.aborted) {
    await sleep(clock, TICK_MS, { signal: lease.signal }).catch(() => {});
    try {
      const { running, ratePerSecond } = await state.read(namespace);
      if (running !== wasRunning) {
        if (running) logger.info({ token, ratePerSecond }, "generating");
        else logger.info({ token }, "leading, but generation is stopped");
        wasRunning = running;
      }
      const nowMs = clock.monotonic();
      const elapsedMs = Math.min(nowMs - lastMs, LONGEST_BURST_MS);
      lastMs = nowMs;
      owed = running ? owed + (elapsedMs * ratePerSecond) / 1_000 : 0;
      const count = Math.floor(owed);
      if (count === 0 || !lease.checkAlive()) continue;
      owed -= count;
      const outcomes = await tasks.enqueue(Array.from({ length: count }, newTask));
      const failed = outcomes.filter((outcome) => outcome.status === "failed");
      const [first] = failed;
      if (first) logger.warn({ err: first.error, tasks: failed.length }, "could not generate");
    } catch (error) {
      // Nothing is owed for the time of an outage.
      logger.warn({ err: error }, "could not generate");
    }
  }
}

/** Tasks of 1 to 5 s, as the sample worker takes them. */
function sleepTasks({ clock, random }: Env, namespace: string): () => NewTask {
  const newId = taskIds(clock, random);
  return () => {
    const seconds = Math.round(10 + 40 * random.float()) / 10;
    return {
      ...DEFAULTS,
      namespace,
      id: newId(),
      kind: "sleep",
      data: { sleep_duration_seconds: seconds },
      scheduledAt: null,
      dedupeKey: null,
    };
  };
}

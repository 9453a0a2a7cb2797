/**
 * Tells that due tasks are of later versions than a worker takes, as while a deployment is under way: it leaves them to
 * other workers. Only where the store can group its tasks. A server tells if no worker takes them: see unhandled.ts.
 */
import type { Env } from "../env/index.js";
import { versionTaken } from "./claims.js";
import type { ClaimRequest, TaskStore } from "./port.js";

/** Between two looks. */
const PAUSE_MS = 30_000;
/** A worker of their version takes them at once. */
const WAITED_MS = 10_000;
/** A look at a long backlog must stay cheap. */
const COUNTED = 1_000;

export interface LaterVersions {
  readonly store: Pick<TaskStore, "dueKinds">;
  readonly env: Pick<Env, "clock" | "logger">;
}

/** @returns a function to call whenever a claim took fewer tasks than it could: it looks now and then, and waits for nothing */
export function laterVersions({ store, env: { clock, logger } }: LaterVersions) {
  const told = new Set<string>();
  let lastMs = Number.NEGATIVE_INFINITY;
  return ({ namespace, queues, kinds, versions }: ClaimRequest): void => {
    if (!store.dueKinds || !kinds || clock.monotonic() - lastMs < PAUSE_MS) return;
    lastMs = clock.monotonic();
    const query = { namespace, queues, kinds, dueForMs: WAITED_MS, limit: COUNTED };
    store.dueKinds(query).then(
      (due) => {
        for (const { queue, kind, version, tasks, dueAt } of due) {
          const taken = versionTaken({ kinds, versions }, kind);
          const name = JSON.stringify([queue, kind, version]);
          if (version <= taken || told.has(name)) continue;
          told.add(name);
          const fields = { queue, kind, version, taken, tasks, dueAt };
          const text = `due tasks are of version ${version} of the kind ${kind}; this worker takes versions up to ${taken}`;
          logger.warn(fields, `${text} and leaves them to others`);
        }
      },
      // The claims tell of a store that does not answer.
      () => {},
    );
  };
}

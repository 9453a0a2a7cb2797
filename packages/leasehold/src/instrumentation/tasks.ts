/** Wraps a task store to count, time and trace its calls. */
import { Recent } from "../env/index.js";
import { observed, type TaskEvent, type TaskStore } from "../tasks/index.js";
import { type Measuring, overriding, timed } from "./stopwatch.js";

/** The most grants, and the most enqueued tasks, that are remembered. Repetitions for older ones count again. */
const REMEMBERED = 10_000;

const TIMED = ["enqueue", "claim", "heartbeat", "complete", "fail", "requeue"] as const;

interface Grant {
  readonly id: string;
  readonly token: number;
}
interface Known {
  /** Null for a grant that was claimed elsewhere, and once its run time has been measured. */
  sinceMs: number | null;
  /** Its end has been counted. */
  ended: boolean;
}
type Ended = "completed" | "failed" | "returned" | "refused" | "expired";

export function measuredTasks(store: TaskStore, measuring: Measuring): TaskStore {
  const { telemetry, clock } = measuring;
  // A caller that got no answer repeats its request, and the store answers again.
  const grants = new Recent<Known>(REMEMBERED);
  const enqueued = new Recent<true>(REMEMBERED);

  // Two tenants may choose one id.
  const keyOf = ({ id, token }: Grant, namespace: string) => `${id}:${token}:${namespace}`;
  const measureRun = (outcome: Ended, known: Known | undefined) => {
    if (!known || known.sinceMs === null) return;
    const { sinceMs } = known;
    known.sinceMs = null;
    telemetry.measure("leasehold.task.run.duration", { outcome }, clock.monotonic() - sinceMs);
  };
  /** @returns whether this process counts the end of the grant, which it does once */
  const ended = (
    outcome: Exclude<Ended, "refused">,
    grant: Grant,
    namespace: string,
    repeated = false,
  ): boolean => {
    const key = keyOf(grant, namespace);
    const known = grants.get(key);
    measureRun(outcome, known);
    if (known?.ended) return false;
    if (known) known.ended = true;
    else grants.set(key, { sinceMs: null, ended: true });
    // Of a grant that was claimed elsewhere, the first report was counted there.
    return known !== undefined || !repeated;
  };
  const isFirst = (id: string, namespace: string): boolean => {
    const key = `${id}:${namespace}`;
    const first = !enqueued.has(key);
    if (first) enqueued.set(key, true);
    return first;
  };
  const count = (event: Exclude<TaskEvent["type"], "renewed"> | "duplicate" | "dead") =>
    telemetry.count("leasehold.task.events", { event });
  const tell = (event: TaskEvent, namespace: string) => {
    switch (event.type) {
      case "renewed":
        return;
      case "enqueued":
        if (event.duplicate) count("duplicate");
        else if (isFirst(event.id, namespace)) count("enqueued");
        return;
      case "claimed":
        if (grants.has(keyOf(event, namespace))) return;
        grants.set(keyOf(event, namespace), { sinceMs: clock.monotonic(), ended: false });
        return count("claimed");
      case "failed":
      case "expired":
        if (!ended(event.type, event, namespace)) return;
        count(event.type);
        if (event.state === "dead") count("dead");
        return;
      case "completed":
        if (ended("completed", event, namespace, event.repeated)) count("completed");
        return;
      case "refused":
        // A refused heartbeat does not end the measurement; the completion after it does.
        if (event.operation !== "heartbeat") {
          measureRun("refused", grants.get(keyOf(event, namespace)));
        }
        return count("refused");
      case "returned":
        if (ended("returned", event, namespace)) count("returned");
        return;
      case "late":
      case "cancelled":
      case "retried":
        count(event.type);
    }
  };

  const timedStore = timed(store, "tasks", TIMED, measuring);
  const claim: TaskStore["claim"] = async (request, options) => {
    // An empty claim may wait in the store, and that time is not latency.
    const waits = request.waitMs && store.capabilities.remoteWait;
    const outcome = await (waits ? store : timedStore).claim(request, options);
    if (outcome.status === "failed") return outcome;
    for (const { scheduledAt, ...grant } of outcome.tasks) {
      if (grants.has(keyOf(grant, request.namespace))) continue;
      const waitedMs = Math.max(0, clock.wall() - Date.parse(scheduledAt));
      telemetry.measure("leasehold.task.wait.duration", {}, waitedMs);
    }
    return outcome;
  };
  return observed(overriding(timedStore, { claim }), tell);
}

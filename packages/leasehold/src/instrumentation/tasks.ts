/** Wraps a task store to count, time and trace its calls. */
import { Recent } from "../env/index.js";
import { observed, type TaskEvent, type TaskStore } from "../tasks/index.js";
import { type Measuring, overriding, timed } from "./stopwatch.js";

/** The most claims whose start time is kept. The run time of older tasks is not measured. */
const REMEMBERED = 10_000;

const TIMED = ["enqueue", "claim", "heartbeat", "complete", "fail", "requeue"] as const;

interface Grant {
  readonly id: string;
  readonly token: number;
}
type Ended = "completed" | "failed" | "returned" | "refused" | "expired";

export function measuredTasks(store: TaskStore, measuring: Measuring): TaskStore {
  const { telemetry, clock } = measuring;
  const claimedAtMs = new Recent<number>(REMEMBERED);

  // Two tenants may choose one id.
  const keyOf = ({ id, token }: Grant, namespace: string) => `${id}:${token}:${namespace}`;
  const ended = (outcome: Ended, grant: Grant, namespace: string) => {
    const key = keyOf(grant, namespace);
    const sinceMs = claimedAtMs.get(key);
    if (sinceMs === undefined) return;
    claimedAtMs.delete(key);
    telemetry.measure("leasehold.task.run.duration", { outcome }, clock.monotonic() - sinceMs);
  };
  const started = (grant: Grant, namespace: string) => {
    claimedAtMs.set(keyOf(grant, namespace), clock.monotonic());
  };
  const count = (event: Exclude<TaskEvent["type"], "renewed"> | "duplicate" | "dead") =>
    telemetry.count("leasehold.task.events", { event });
  const tell = (event: TaskEvent, namespace: string) => {
    switch (event.type) {
      case "renewed":
        return;
      case "enqueued":
        return count(event.duplicate ? "duplicate" : "enqueued");
      case "claimed":
        started(event, namespace);
        return count("claimed");
      case "failed":
      case "expired":
        ended(event.type, event, namespace);
        count(event.type);
        if (event.state === "dead") count("dead");
        return;
      case "completed":
        ended("completed", event, namespace);
        if (!event.repeated) count("completed");
        return;
      case "refused":
        // A refused heartbeat does not end the measurement; the completion after it does.
        if (event.operation !== "heartbeat") ended("refused", event, namespace);
        return count("refused");
      case "returned":
        ended("returned", event, namespace);
        return count("returned");
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
    for (const { scheduledAt } of outcome.tasks) {
      const waitedMs = Math.max(0, clock.wall() - Date.parse(scheduledAt));
      telemetry.measure("leasehold.task.wait.duration", {}, waitedMs);
    }
    return outcome;
  };
  return observed(overriding(timedStore, { claim }), tell);
}

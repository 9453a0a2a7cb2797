/** Events about tasks as they happen: for a terminal, a console, a log. */
import { Recent } from "../env/index.js";
import type { ClaimedTask, RefusalReason, TaskGrant, TaskState, TaskStore } from "./port.js";

/** Who held the task when it happened, as far as this store object has seen the claim. */
interface Grantee {
  readonly id: string;
  readonly token: number;
  readonly kind: string | null;
  readonly holder: string | null;
  readonly attempt: number | null;
}

/** One thing that happened to one task. Never with a lease id. */
export type TaskEvent =
  | {
      readonly type: "enqueued";
      readonly id: string;
      readonly kind: string;
      readonly queue: string;
      readonly duplicate: boolean;
    }
  | ({
      readonly type: "claimed";
      readonly queue: string;
      readonly remainingMs: number;
      /** Who had it before: the task was handed over. */
      readonly previousHolder: string | null;
    } & Grantee)
  | ({ readonly type: "renewed"; readonly remainingMs: number } & Grantee)
  | ({ readonly type: "completed"; readonly repeated: boolean } & Grantee)
  | ({
      readonly type: "failed";
      readonly state: "pending" | "dead";
      readonly retryInMs: number | null;
      readonly error: string;
    } & Grantee)
  | ({ readonly type: "returned" } & Grantee)
  /** A holder came too late, or was overtaken. */
  | ({
      readonly type: "refused";
      readonly operation: "heartbeat" | "complete" | "fail" | "return";
      readonly reason: RefusalReason;
    } & Grantee)
  /** The lease expired, and the task was requeued or died. */
  | ({ readonly type: "expired"; readonly state: "pending" | "dead" } & Grantee)
  /** It had not begun by its time, and has expired. */
  | { readonly type: "late"; readonly id: string; readonly state: "expired" }
  | { readonly type: "cancelled" | "retried"; readonly id: string; readonly state: TaskState };

type GrantKey = Pick<TaskGrant, "namespace" | "id" | "token">;

/** Grants whose holder is remembered, the latest half surely; of older ones the events say null. */
const REMEMBERED = 20_000;

/** @param namespace whose task it is */
export type TaskListener = (event: TaskEvent, namespace: string) => void;

/**
 * A store that calls `onEvent` after each call with its outcomes. Failed calls, and calls through other
 * store objects, are not reported.
 * @param onEvent never throws
 */
export function observed(store: TaskStore, onEvent: TaskListener): TaskStore {
  interface Known extends Pick<ClaimedTask, "kind" | "attempt"> {
    readonly holder: string;
    /** The holder has ended it by a report that was taken. */
    reported: boolean;
  }
  const grants = new Recent<Known>(REMEMBERED);

  // Two tenants may choose one id.
  const keyOf = ({ namespace, id, token }: GrantKey) => `${id}:${token}:${namespace}`;
  const grantee = (grant: GrantKey): Grantee => {
    const { id, token } = grant;
    const known = grants.get(keyOf(grant));
    const { kind = null, holder = null, attempt = null } = known ?? {};
    return { id, token, kind, holder, attempt };
  };
  const remember = (grant: GrantKey & ClaimedTask, holder: string): void => {
    const { kind, attempt } = grant;
    grants.set(keyOf(grant), { kind, attempt, holder, reported: false });
  };
  /** Reports each outcome in order: a refusal as `refused`, any other as `eventOf` maps it. */
  const each = <Request extends TaskGrant, Outcome extends { status: string }>(
    operation: "heartbeat" | "complete" | "fail" | "return",
    requests: readonly Request[],
    outcomes: Outcome[],
    eventOf: (outcome: Outcome, request: Request) => TaskEvent | undefined,
  ): Outcome[] => {
    for (const [index, request] of requests.entries()) {
      const outcome = outcomes[index];
      if (!outcome) continue;
      const known = grants.get(keyOf(request));
      if ("reason" in outcome) {
        // The holder's own completion overtook this heartbeat: no event.
        if (operation === "heartbeat" && known?.reported) continue;
        const reason = outcome.reason as RefusalReason;
        onEvent({ type: "refused", operation, ...grantee(request), reason }, request.namespace);
        continue;
      }
      const event = eventOf(outcome, request);
      if (known && event && operation !== "heartbeat") known.reported = true;
      if (event) onEvent(event, request.namespace);
    }
    return outcomes;
  };

  return {
    capabilities: store.capabilities,
    async enqueue(tasks, options) {
      const outcomes = await store.enqueue(tasks, options);
      for (const [index, { namespace, kind, queue }] of tasks.entries()) {
        const outcome = outcomes[index];
        if (!outcome || outcome.status === "failed" || outcome.status === "conflict") continue;
        const duplicate = outcome.status === "duplicate";
        onEvent({ type: "enqueued", id: outcome.id, kind, queue, duplicate }, namespace);
      }
      return outcomes;
    },
    async claim(request, options) {
      const outcome = await store.claim(request, options);
      if (outcome.status === "failed") return outcome;
      const { namespace } = request;
      for (const task of outcome.tasks) {
        const grant = { namespace, ...task };
        remember(grant, request.holder);
        const { queue, remainingMs, previousHolder } = task;
        onEvent(
          { type: "claimed", ...grantee(grant), queue, remainingMs, previousHolder },
          namespace,
        );
      }
      return outcome;
    },
    async heartbeat(requests, options) {
      const outcomes = await store.heartbeat(requests, options);
      return each("heartbeat", requests, outcomes, (outcome, request) =>
        outcome.status === "renewed"
          ? { type: "renewed", ...grantee(request), remainingMs: outcome.remainingMs }
          : undefined,
      );
    },
    async complete(requests, options) {
      const outcomes = await store.complete(requests, options);
      return each("complete", requests, outcomes, (outcome, request) =>
        outcome.status === "completed"
          ? { type: "completed", ...grantee(request), repeated: outcome.repeated }
          : undefined,
      );
    },
    async fail(requests, options) {
      const outcomes = await store.fail(requests, options);
      return each("fail", requests, outcomes, (outcome, request) => {
        if (outcome.status !== "recorded") return undefined;
        const { state, retryInMs } = outcome;
        return { type: "failed", ...grantee(request), state, retryInMs, error: request.error };
      });
    },
    async requeue(requests, options) {
      const outcomes = await store.requeue(requests, options);
      return each("return", requests, outcomes, (outcome, request) =>
        outcome.status === "returned" ? { type: "returned", ...grantee(request) } : undefined,
      );
    },
    async cancel(tasks) {
      const outcomes = await store.cancel(tasks);
      for (const [index, { namespace, id }] of tasks.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status !== "ok") continue;
        onEvent({ type: "cancelled", id, state: outcome.state }, namespace);
      }
      return outcomes;
    },
    async retry(tasks) {
      const outcomes = await store.retry(tasks);
      for (const [index, { namespace, id }] of tasks.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status !== "ok") continue;
        onEvent({ type: "retried", id, state: outcome.state }, namespace);
      }
      return outcomes;
    },
    collect: (limit) => store.collect(limit),
    async reap() {
      const reaped = await store.reap();
      for (const task of reaped) {
        const { namespace, id } = task;
        if (task.state === "expired") onEvent({ type: "late", id, state: "expired" }, namespace);
        else {
          const { holder, state } = task;
          onEvent({ type: "expired", ...grantee(task), holder, state }, namespace);
        }
      }
      return reaped;
    },
    delete: (tasks) => store.delete(tasks),
    get: (task) => store.get(task),
    list: (query) => store.list(query),
    counts: (namespace) => store.counts(namespace),
    ...(store.dueKinds && { dueKinds: store.dueKinds.bind(store) }),
    ...(store.blockedKeys && { blockedKeys: store.blockedKeys.bind(store) }),
    ...(store.limits && { limits: store.limits }),
    results: (tasks, options) => store.results(tasks, options),
    watchResults: (namespace, options) => store.watchResults(namespace, options),
    stats: (query) => store.stats(query),
    leases: (query) => store.leases(query),
    watch: (namespace, options) => store.watch(namespace, options),
    close: () => store.close(),
  };
}

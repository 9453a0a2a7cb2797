/** /api/tasks: enqueueing, claiming and the operations of holders. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import { TaskConflictError } from "leasehold";
import type {
  ClaimedTask,
  ClaimOutcome,
  EnqueueOutcome,
  Refused,
  TaskGrant,
} from "leasehold/internal";
import { grantIdOf, invariant, newLeaseId } from "leasehold/internal";
import { BOUNDS, toWireClaimed } from "leasehold/internal/wire";
import {
  CompleteAnswer,
  CompleteBody,
  EnqueueAnswer,
  EnqueueBody,
  FailAnswer,
  FailBody,
  HeartbeatAnswer,
  HeartbeatBody,
  NextAnswer,
  NextBody,
  ReturnAnswer,
  ReturnBody,
  TaskParams,
} from "../../protocol/index.js";
import { type Caller, callerOf } from "../auth/caller.js";
import { failed, ProblemError, refused } from "../problems.js";
import { type AppEnv, forgetBody, limitBody, ttlOf } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, bodyProblems, defined, jsonBody, otherMethods } from "../routing.js";
import type { Services } from "../services.js";

const TAGS = ["tasks"];
const REQUEUE_MS = 1_000;
const HOLDER_PROBLEMS = bodyProblems(
  "UNKNOWN_TASK",
  "UNKNOWN_LEASE",
  "LEASE_EXPIRED",
  "LEASE_TAKEN",
  "TASK_CANCELLED",
  "TASK_FINISHED",
);

/** Enqueueing and claiming. Declared before the routes of one task, because `next` is no id. */
export function queueRoutes(app: App, services: Services): void {
  const { env, tenants, batchedTasks } = services;

  app.openapi(
    createRoute({
      ...needs("work"),
      method: "post",
      path: "/api/tasks",
      tags: TAGS,
      summary: "Enqueue a task or an array of tasks",
      middleware: limitBody(BOUNDS.payloadBodyBytes),
      request: jsonBody(EnqueueBody),
      responses: {
        201: answers("The task, or the tasks in the order of the request.", EnqueueAnswer),
        ...bodyProblems("LIMIT_REACHED", "TASK_CONFLICT"),
      },
    }),
    async (context) => {
      const body = context.req.valid("json");
      const { namespace } = callerOf(context);
      const wanted = Array.isArray(body) ? body : [body];
      await services.reserveQuota(
        context,
        "tasks",
        wanted.map(({ id = null }) => id),
      );
      const add = async () => {
        const timeoutMs = services.budget(context).storeMs();
        const added = wanted.map((task) => newTask(task, namespace, services));
        return batchedTasks.enqueue(added, timeoutMs);
      };
      const enqueued = allEnqueued(await withReserved(services, context, wanted.length, add));
      const [first] = enqueued;
      invariant(first, "one outcome per task");
      if (Array.isArray(body)) return context.json(enqueued, 201);
      if (first.status === "conflict")
        throw new ProblemError("TASK_CONFLICT", new TaskConflictError(first.id).message);
      return context.json(first, 201);
    },
  );

  app.openapi(
    createRoute({
      ...needs("work", "waits"),
      method: "post",
      path: "/api/tasks/next",
      tags: TAGS,
      summary: "Claim tasks, with a lease on each",
      middleware: limitBody(BOUNDS.bodyBytes),
      request: jsonBody(NextBody),
      responses: {
        200: answers("At least one task.", NextAnswer),
        204: { description: "No task is due." },
        ...bodyProblems("LIMIT_REACHED"),
      },
    }),
    async (context) => {
      const { processor, claimId, waitMs, ttlField, ...wanted } = context.req.valid("json");
      const ttlMs = ttlOf(ttlField, wanted.ttlMs, services.ttl.tasks);
      await context.get("begin")(wanted.queues.length + (wanted.kinds?.length ?? 0));
      const budget = services.budget(context);
      const caller = callerOf(context);
      const { namespace } = caller;
      const request = {
        ...wanted,
        ttlMs,
        namespace,
        holder: processor,
        claimId: claimId ?? newLeaseId(env.random),
        waitMs: budget.waitMs(waitMs),
      };
      const claim = (signal: AbortSignal) =>
        tenants.of(namespace).claim(request, {
          signal,
          timeoutMs: budget.storeMs(),
          // A claim can be repeated only if its caller knows the id.
          repeatable: claimId !== undefined,
        });
      const { signal } = context.req.raw;
      if (request.waitMs > 0) forgetBody(context);
      const outcome =
        request.waitMs > 0
          ? await claimWhileValid(services, caller, signal, claim)
          : await claim(signal);
      if (outcome.status === "failed") throw failed(outcome);
      if (outcome.tasks.length === 0) return context.body(null, 204);
      const claimed = outcome.tasks.map((task) => toWireClaimed(task, processor));
      return context.json({ tasks: claimed, waitedMs: outcome.waitedMs ?? 0 }, 200);
    },
  );
  otherMethods(app, "/api/tasks/next", "POST");
}

/**
 * A claim that waits, and ends when its caller's key does.
 * @throws UNAUTHENTICATED if the key has ended
 */
async function claimWhileValid(
  services: Services,
  caller: Caller,
  signal: AbortSignal,
  claim: (signal: AbortSignal) => Promise<ClaimOutcome>,
): Promise<ClaimOutcome> {
  const { authenticator } = services;
  const wait = authenticator.watch(caller, signal);
  try {
    const outcome = await claim(wait.signal);
    try {
      await authenticator.checkAgain(caller);
    } catch (error) {
      if (outcome.status === "claimed") await requeue(services, caller.namespace, outcome.tasks);
      throw error;
    }
    return outcome;
  } finally {
    wait.stop();
  }
}

/** Requeues claimed tasks that are not handed out. If that fails, their leases expire. */
async function requeue(
  { batchedTasks }: Services,
  namespace: string,
  tasks: readonly ClaimedTask[],
): Promise<void> {
  const grants = tasks.map(({ id, leaseId, token }) => ({ namespace, id, leaseId, token }));
  await Promise.all(grants.map((grant) => batchedTasks.requeue.submit(grant, REQUEUE_MS)));
}

/** Operations of a task's holder. */
export function holderRoutes(app: App, services: Services): void {
  const { batchedTasks } = services;
  const about = (operation: string, summary: string, bytes: number = BOUNDS.payloadBodyBytes) => ({
    ...needs("work", "keeps"),
    method: "put" as const,
    path: `/api/tasks/{id}/${operation}` as const,
    tags: TAGS,
    summary,
    middleware: limitBody(bytes),
  });

  app.openapi(
    createRoute({
      ...about("heartbeat", "Renew the lease on a task"),
      request: { params: TaskParams, ...jsonBody(HeartbeatBody) },
      responses: { 202: answers("Renewed.", HeartbeatAnswer), ...HOLDER_PROBLEMS },
    }),
    async (context) => {
      const { id } = context.req.valid("param");
      const { namespace } = callerOf(context);
      const { leaseId, fencingToken, ttlField, progress, checkpoint, ...asked } =
        context.req.valid("json");
      const ttlMs = ttlOf(ttlField, asked.ttlMs, services.ttl.tasks);
      const grant = { namespace, id, leaseId, token: fencingToken };
      const outcome = await batchedTasks.heartbeat.submit(
        { ...grant, ttlMs, ...defined({ progress, checkpoint }) },
        services.budget(context).storeMs(),
      );
      if (outcome.status === "failed") throw failed(outcome);
      if (outcome.status === "refused") throw await refusal(services, context, grant, outcome);
      const { status, expiresAt, ...term } = outcome;
      return context.json({ id, fencingToken, ...term, must_heartbeat_before: expiresAt }, 202);
    },
  );

  app.openapi(
    createRoute({
      ...about("complete", "Complete a task with its output"),
      request: { params: TaskParams, ...jsonBody(CompleteBody) },
      responses: {
        202: answers("Done, now or by an earlier request of the same grant.", CompleteAnswer),
        ...HOLDER_PROBLEMS,
      },
    }),
    async (context) => {
      const { id } = context.req.valid("param");
      const { namespace } = callerOf(context);
      const { leaseId, fencingToken, task_output } = context.req.valid("json");
      const grant = { namespace, id, leaseId, token: fencingToken };
      const outcome = await batchedTasks.complete.submit(
        { ...grant, output: task_output },
        services.budget(context).storeMs(),
      );
      if (outcome.status === "failed") throw failed(outcome);
      if (outcome.status === "refused") throw await refusal(services, context, grant, outcome);
      const { output, repeated } = outcome;
      return context.json({ id, state: "done" as const, task_output: output, repeated }, 202);
    },
  );

  app.openapi(
    createRoute({
      ...about("fail", "Report a failed attempt"),
      request: { params: TaskParams, ...jsonBody(FailBody) },
      responses: {
        202: answers("Recorded: the task is pending again, or dead.", FailAnswer),
        ...HOLDER_PROBLEMS,
      },
    }),
    async (context) => {
      const { id } = context.req.valid("param");
      const { namespace } = callerOf(context);
      const { leaseId, fencingToken, error, retryInMs, final } = context.req.valid("json");
      const grant = { namespace, id, leaseId, token: fencingToken };
      const outcome = await batchedTasks.fail.submit(
        { ...grant, error, retryInMs, final },
        services.budget(context).storeMs(),
      );
      if (outcome.status === "failed") throw failed(outcome);
      if (outcome.status === "refused") throw await refusal(services, context, grant, outcome);
      const { state, retryInMs: leftMs, repeated } = outcome;
      return context.json({ id, state, retryInMs: leftMs, repeated }, 202);
    },
  );

  app.openapi(
    createRoute({
      ...about(
        "return",
        "Requeue a task without counting a failure, or put it off",
        BOUNDS.bodyBytes,
      ),
      request: { params: TaskParams, ...jsonBody(ReturnBody) },
      responses: { 202: answers("Pending again.", ReturnAnswer), ...HOLDER_PROBLEMS },
    }),
    async (context) => {
      const { id } = context.req.valid("param");
      const { namespace } = callerOf(context);
      const { leaseId, fencingToken, retryInMs, reason } = context.req.valid("json");
      const grant = { namespace, id, leaseId, token: fencingToken };
      const outcome = await batchedTasks.requeue.submit(
        { ...grant, retryInMs, reason },
        services.budget(context).storeMs(),
      );
      if (outcome.status === "failed") throw failed(outcome);
      if (outcome.status === "refused") throw await refusal(services, context, grant, outcome);
      return context.json({ id, state: "pending" as const, repeated: outcome.repeated }, 202);
    },
  );
  for (const operation of ["heartbeat", "complete", "fail", "return"]) {
    otherMethods(app, `/api/tasks/:id/${operation}`, "PUT");
  }
}

/**
 * The problem of a refused holder. Stores refuse each grant but the last one as taken. LEASE_TAKEN is for
 * former holders, which the attempts of the task name.
 */
async function refusal(
  services: Services,
  context: Context<AppEnv>,
  { leaseId, token, ...key }: TaskGrant,
  outcome: Refused,
): Promise<ProblemError> {
  if (outcome.reason !== "taken") return refused(outcome);
  const task = await services.page(context, 1, () => services.tasks.get(key));
  const grantId = grantIdOf(leaseId);
  const wasGranted = task?.attempts.some(
    (attempt) => attempt.grantId === grantId && attempt.token === token,
  );
  if (wasGranted) return refused(outcome);
  const detail = "no recent attempt of this task has this leaseId and fencingToken";
  return new ProblemError("UNKNOWN_LEASE", detail);
}

type NewTaskBody = Exclude<ReturnType<typeof EnqueueBody.parse>, readonly unknown[]>;

function newTask(
  { task_data, scheduled_at, id, ...task }: NewTaskBody,
  namespace: string,
  { newTaskId }: Services,
) {
  return {
    ...task,
    namespace,
    id: id ?? newTaskId(),
    data: task_data,
    scheduledAt: scheduled_at,
  };
}

/**
 * Adds the tasks that quota was reserved for, and returns the quota of those that were not added: of all, if adding
 * throws. They may have been added then, or by a call without an answer, which the next count of the tasks will show.
 */
async function withReserved(
  services: Services,
  context: Context<AppEnv>,
  reserved: number,
  add: () => Promise<EnqueueOutcome[]>,
): Promise<EnqueueOutcome[]> {
  let added = 0;
  try {
    const outcomes = await add();
    added = outcomes.filter(({ status }) => status === "enqueued").length;
    return outcomes;
  } finally {
    services.returnTasks(context, reserved - added);
  }
}

/** Throws unless all tasks were enqueued. If only some were, the outcome of the request is unknown. */
function allEnqueued(outcomes: readonly EnqueueOutcome[]) {
  const enqueued = outcomes.filter((outcome) => outcome.status !== "failed");
  const failures = outcomes.filter((outcome) => outcome.status === "failed");
  const [first] = failures;
  if (!first) return enqueued;
  const worst = failures.find(({ applied }) => applied === "maybe") ?? first;
  throw failed(enqueued.length > 0 ? { ...worst, applied: "maybe" } : worst);
}

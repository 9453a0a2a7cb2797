/** /api/tasks/{operation}: operations of holders on many tasks in one request. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import { BOUNDS } from "leasehold/internal/wire";
import {
  CompleteBatch,
  CompleteOutcomes,
  FailBatch,
  FailOutcomes,
  HeartbeatBatch,
  HeartbeatOutcomes,
  ReturnBatch,
  ReturnOutcomes,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { type AppEnv, limitBody, ttlOf } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, bodyProblems, defined, jsonBody, otherMethods } from "../routing.js";
import type { Services } from "../services.js";
import { toWireOutcome } from "./outcomes.js";

const ONE_EACH = "One outcome per request, in order.";
const WRONG = bodyProblems();
/** Declared before the routes of one task. */
export function taskBatchRoutes(app: App, services: Services): void {
  const { batchedTasks } = services;
  const operation = <Name extends string>(
    name: Name,
    summary: string,
    bytes: number = BOUNDS.payloadBodyBytes,
  ) => ({
    ...needs("work", "keeps"),
    method: "post" as const,
    path: `/api/tasks/${name}` as const,
    tags: ["tasks"],
    summary,
    middleware: limitBody(bytes),
  });

  app.openapi(
    createRoute({
      ...operation("heartbeat", "Renew the leases on many tasks"),
      request: jsonBody(HeartbeatBatch),
      responses: { 200: answers(ONE_EACH, HeartbeatOutcomes), ...WRONG },
    }),
    async (context) => {
      const beats = context.req.valid("json");
      const requests = beats.map(({ progress, checkpoint, ttlMs, ttlField, ...grant }, index) => {
        return {
          ...grantOf(context, grant),
          ttlMs: ttlOf(`${index}.${ttlField}`, ttlMs, services.ttl.tasks),
          ...defined({ progress, checkpoint }),
        };
      });
      const timeoutMs = services.budget(context).storeMs();
      const outcomes = await batchedTasks.heartbeat.submitAll(requests, timeoutMs);
      const answer = outcomes.map((outcome) => {
        if (outcome.status !== "renewed") return toWireOutcome(outcome);
        const { expiresAt, ...renewed } = outcome;
        return { ...renewed, must_heartbeat_before: expiresAt };
      });
      return context.json(answer, 200);
    },
  );

  app.openapi(
    createRoute({
      ...operation("complete", "Complete many tasks with their outputs"),
      request: jsonBody(CompleteBatch),
      responses: { 200: answers(ONE_EACH, CompleteOutcomes), ...WRONG },
    }),
    async (context) => {
      const requests = context.req
        .valid("json")
        .map(({ task_output, ...grant }) => ({ ...grantOf(context, grant), output: task_output }));
      const timeoutMs = services.budget(context).storeMs();
      const outcomes = await batchedTasks.complete.submitAll(requests, timeoutMs);
      const answer = outcomes.map((outcome) => {
        if (outcome.status !== "completed") return toWireOutcome(outcome);
        const { output, ...completed } = outcome;
        return { ...completed, task_output: output };
      });
      return context.json(answer, 200);
    },
  );

  app.openapi(
    createRoute({
      ...operation("fail", "Report failed attempts of many tasks"),
      request: jsonBody(FailBatch),
      responses: { 200: answers(ONE_EACH, FailOutcomes), ...WRONG },
    }),
    async (context) => {
      const requests = context.req.valid("json").map(({ error, retryInMs, final, ...grant }) => ({
        ...grantOf(context, grant),
        error,
        retryInMs,
        final,
      }));
      const timeoutMs = services.budget(context).storeMs();
      const outcomes = await batchedTasks.fail.submitAll(requests, timeoutMs);
      return context.json(outcomes.map(toWireOutcome), 200);
    },
  );

  app.openapi(
    createRoute({
      ...operation("return", "Requeue many tasks", BOUNDS.batchBodyBytes),
      request: jsonBody(ReturnBatch),
      responses: { 200: answers(ONE_EACH, ReturnOutcomes), ...WRONG },
    }),
    async (context) => {
      const requests = context.req.valid("json").map(({ retryInMs, reason, ...grant }) => ({
        ...grantOf(context, grant),
        retryInMs,
        reason,
      }));
      const timeoutMs = services.budget(context).storeMs();
      const outcomes = await batchedTasks.requeue.submitAll(requests, timeoutMs);
      return context.json(outcomes.map(toWireOutcome), 200);
    },
  );

  for (const name of ["heartbeat", "complete", "fail", "return"]) {
    otherMethods(app, `/api/tasks/${name}`, "POST");
  }
}

function grantOf(
  context: Context<AppEnv>,
  { id, leaseId, fencingToken }: { id: string; leaseId: string; fencingToken: number },
) {
  const { namespace } = callerOf(context);
  return { namespace, id, leaseId, token: fencingToken };
}

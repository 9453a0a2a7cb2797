/**
 * /api/generator. The wanted state is stored and the lease names the running generator, so every
 * instance returns the same status.
 */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import { BOUNDS } from "leasehold/internal/wire";
import { type Caller, callerOf } from "../http/auth/caller.js";
import { byCaller } from "../http/operations/operator-action.js";
import { type AppEnv, type Budget, limitBody } from "../http/request.js";
import { needs } from "../http/route-rules.js";
import {
  type App,
  answers,
  bodyProblems,
  jsonBody,
  otherMethods,
  problems,
} from "../http/routing.js";

import type { Services } from "../http/services.js";
import { ReasonQuery } from "../protocol/index.js";
import { GeneratorStatus as GeneratorStatusSchema, RateBody } from "./schemas.js";
import { GENERATOR_RESOURCE, type GeneratorStatus } from "./shared.js";
import type { GeneratorWanted } from "./state.js";

const TAGS = ["generator"];

export function generatorRoutes(app: App, services: Services): void {
  const { leases, generator, control } = services;

  const status = async (
    { namespace }: Caller,
    budget: Budget,
    wanted: GeneratorWanted,
  ): Promise<GeneratorStatus> => {
    const key = { namespace, resource: GENERATOR_RESOURCE };
    const [lease] = await budget.read(() => leases.get([key]));
    const live = lease?.state === "live" ? lease : null;
    return {
      status: live && wanted.running ? "STARTED" : "STOPPED",
      ...wanted,
      holder: live?.holder ?? null,
      fencingToken: live?.token ?? null,
      remainingMs: live?.remainingMs ?? null,
    };
  };
  /** Changes the wanted state, with an audit entry if there is an audit. */
  const steer = async (
    context: Context<AppEnv>,
    change: Partial<GeneratorWanted>,
    reason: string | undefined,
  ) => {
    const [caller, budget] = [callerOf(context), services.budget(context)];
    const { namespace } = caller;
    // Repeating the write is harmless, so a late response does no damage.
    const write = () =>
      control
        ? generator.steer(control, namespace, change, byCaller(context, reason))
        : generator.write(namespace, change);
    return status(caller, budget, await budget.change(write));
  };
  const STATUS = { 200: answers("The status.", GeneratorStatusSchema) };

  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/api/generator",
      tags: TAGS,
      summary: "Read the generator's status",
      responses: { ...STATUS, ...problems() },
    }),
    async (context) => {
      const [caller, budget] = [callerOf(context), services.budget(context)];
      const wanted = await budget.read(() => generator.read(caller.namespace));
      return context.json(await status(caller, budget, wanted), 200);
    },
  );
  otherMethods(app, "/api/generator", "GET");

  for (const action of ["start", "stop"] as const) {
    app.openapi(
      createRoute({
        ...needs("operate"),
        method: "post",
        path: `/api/generator/${action}` as const,
        tags: TAGS,
        summary: action === "start" ? "Let the instances of the generator run" : "Stop them",
        request: { query: ReasonQuery },
        responses: { ...STATUS, ...problems("INVALID_REQUEST") },
      }),
      async (context) => {
        const { reason } = context.req.valid("query");
        const running = action === "start";
        return context.json(await steer(context, { running }, reason), 200);
      },
    );
    otherMethods(app, `/api/generator/${action}`, "POST");
  }

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "put",
      path: "/api/generator/rate",
      tags: TAGS,
      summary: "Set the generator's rate in tasks per second",
      middleware: limitBody(BOUNDS.bodyBytes),
      request: jsonBody(RateBody),
      responses: { ...STATUS, ...bodyProblems() },
    }),
    async (context) => {
      const { ratePerSecond, reason } = context.req.valid("json");
      return context.json(await steer(context, { ratePerSecond }, reason), 200);
    },
  );
  otherMethods(app, "/api/generator/rate", "PUT");
}

/** /v1/pauses: the tenant's paused resources, prefixes and queues. */
import { createRoute } from "@hono/zod-openapi";
import { clearPause, type PauseKey, type Pause as StoredPause, setPause } from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";
import { Pause, PauseBody, PauseList, Resumed, ResumeQuery } from "../../protocol/index.js";
import { type Caller, callerOf, checkNoTask, covers, TASK_PREFIX } from "../auth/caller.js";
import { checkOperates, checkOperatesQueue } from "../auth/scope.js";
import { tooMany } from "../problems.js";
import { type Budget, limitBody } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, bodyProblems, jsonBody, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { byCaller, controlOf } from "./operator-action.js";

const PATH = "/v1/pauses";
const TAGS = ["operator"];
/** Per tenant: every server reads the pauses of all tenants every second. */
const MAX_PAUSES = 1_000;

export function pauseRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: PATH,
      tags: TAGS,
      summary: "List pauses",
      responses: {
        200: answers(
          "Sorted by kind and name. A holder gets those that concern its prefixes.",
          PauseList,
        ),
        ...problems("NO_CONTROL"),
      },
    }),
    async (context) => {
      const { pauses } = controlOf(services);
      const caller = callerOf(context);
      const list = await services.page(context, 1, () => pauses.list(caller.namespace));
      const shown = list.filter((pause) => concerns(pause, caller));
      return context.json({ items: shown.map(toWirePause) }, 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("operate", "keeps"),
      method: "put",
      path: PATH,
      tags: TAGS,
      summary: "Pause grants of a resource, of a prefix, or of a queue's tasks",
      middleware: limitBody(BOUNDS.bodyBytes),
      request: jsonBody(PauseBody),
      responses: {
        200: answers(
          "The pause. An existing one keeps its `since`, and has this reason and actor from now on.",
          Pause,
        ),
        ...bodyProblems("LIMIT_REACHED", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { kind, name, reason } = context.req.valid("json");
      if (kind !== "queue") checkNoTask("name", name);
      const control = controlOf(services);
      const { namespace } = callerOf(context);
      checkPause(callerOf(context), { kind, name });
      const by = { ...byCaller(context, reason), reason };
      await checkRoom(services, services.budget(context), { namespace, kind, name });
      const pause = () => setPause(control, { namespace, kind, name }, by);
      const stored = await services.budget(context).change(pause);
      services.activities.of(namespace).notePause("paused", stored, stored);
      await refresh(services);
      return context.json(toWirePause(stored), 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("operate", "keeps"),
      method: "delete",
      path: PATH,
      tags: TAGS,
      summary: "End a pause",
      request: { query: ResumeQuery },
      responses: {
        200: answers("Ended, now or before.", Resumed),
        ...problems("INVALID_REQUEST", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { kind, name, reason } = context.req.valid("query");
      const control = controlOf(services);
      const { namespace } = callerOf(context);
      checkPause(callerOf(context), { kind, name });
      const by = byCaller(context, reason);
      const resume = () => clearPause(control, { namespace, kind, name }, by);
      const wasPaused = await services.budget(context).change(resume);
      if (wasPaused) services.activities.of(namespace).notePause("resumed", { kind, name }, by);
      await refresh(services);
      return context.json({ kind, name, wasPaused }, 200);
    },
  );
  otherMethods(app, PATH, "GET", "PUT", "DELETE");
}

/** @throws FORBIDDEN */
function checkPause(caller: Caller, { kind, name }: Pick<PauseKey, "kind" | "name">): void {
  if (kind === "queue") checkOperatesQueue(caller, name);
  else checkOperates(caller, [name]);
}

/** Whether the pause refuses something that the caller may acquire or claim. */
function concerns({ kind, name }: PauseKey, caller: Caller): boolean {
  if (kind === "queue") return covers(caller, TASK_PREFIX);
  if (covers(caller, name)) return true;
  return kind === "prefix" && caller.prefixes.some((own) => own.startsWith(name));
}

/** @throws LIMIT_REACHED */
async function checkRoom({ pauses }: Services, budget: Budget, key: PauseKey): Promise<void> {
  if (await budget.read(() => pauses.hasRoom(key, MAX_PAUSES))) return;
  // Another instance may have ended pauses, or set this one, since the last read.
  await budget.read(() => pauses.refresh());
  if (await budget.read(() => pauses.hasRoom(key, MAX_PAUSES))) return;
  const detail = `a tenant may have at most ${MAX_PAUSES} pauses: end some, or pause a prefix`;
  throw tooMany("quota", detail, 5_000);
}

/** Applies the change here at once. A failed read is only logged: the next one follows within a second. */
async function refresh({ pauses, env }: Services): Promise<void> {
  await pauses.refresh().catch((err: unknown) => {
    env.logger.warn({ err }, "could not read the pauses; retrying within a second");
  });
}

function toWirePause({ kind, name, actor, reason, since }: StoredPause) {
  return { kind, name, actor, reason, since };
}

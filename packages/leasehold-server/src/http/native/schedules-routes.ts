/** /v1/schedules: declare and read the schedules of tasks. The server ticks by itself. */
import { createRoute } from "@hono/zod-openapi";
import {
  DEFAULTS,
  loadDeclarations,
  nextTurn,
  type ScheduleDeclaration,
  type ScheduleStore,
  type ScheduleView,
} from "leasehold/internal";
import { BOUNDS, type Schedule as Wire } from "leasehold/internal/wire";
import type { z } from "zod";
import {
  DeclareScheduleBody,
  isScheduleName,
  Schedule,
  ScheduleDeclared,
  ScheduleListQuery,
  SchedulePage,
  ScheduleParams,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { failed, invalid, ProblemError, tooMany } from "../problems.js";
import { limitBody } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, bodyProblems, jsonBody, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";

const TAGS = ["schedules"];
/** Each view has fire times that must be computed. */
const PAGE = 20;
/** A page ends when it has so many characters of JSON: each schedule may have 64 KB of data. */
const PAGE_CHARACTERS = 128 * 1024;
/** Schedules of one read. */
const PART = 4;

/** @throws NO_SCHEDULES */
export function schedulesOf({ schedules }: Pick<Services, "schedules">): ScheduleStore {
  if (schedules) return schedules;
  throw new ProblemError("NO_SCHEDULES", "its host gave it no store of schedules");
}

export function unknownSchedule(): ProblemError {
  return new ProblemError("UNKNOWN_SCHEDULE", "no schedule of this name is declared");
}

export function scheduleRoutes(app: App, services: Services): void {
  const { env } = services;

  app.openapi(
    createRoute({
      ...needs("work"),
      method: "put",
      path: "/v1/schedules/{name}",
      tags: TAGS,
      summary: "Declare a schedule of tasks",
      middleware: limitBody(BOUNDS.batchBodyBytes),
      request: { params: ScheduleParams, ...jsonBody(DeclareScheduleBody) },
      responses: {
        200: answers(
          "A declaration that changes nothing is `none`. A pause stays. New fire times count from now on.",
          ScheduleDeclared,
        ),
        ...bodyProblems("LIMIT_REACHED", "NO_SCHEDULES"),
      },
    }),
    async (context) => {
      const schedules = schedulesOf(services);
      const { name } = context.req.valid("param");
      const declaration = declarationOf(context.req.valid("json"));
      const { namespace } = callerOf(context);
      if (!isScheduleName(name)) {
        throw invalid([{ path: "name", problem: "is no name that a schedule can have" }]);
      }
      const { checkDeclaration } = await loadDeclarations();
      // The search for a fire time ends after thousands of years: of a day that no month has, it takes a tenth of a second.
      await context.get("measured")(async () => checkDeclaration(declaration));
      const timeoutMs = services.budget(context).storeMs();
      const outcome = await schedules.declare({ namespace, name, declaration }, { timeoutMs });
      if (outcome.status === "failed") throw failed(outcome);
      if (outcome.status === "full") {
        const detail =
          "a tenant may have at most 1,000 schedules: remove those that no program declares";
        throw tooMany("quota", detail, 60_000);
      }
      return context.json({ name, change: outcome.change }, 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/v1/schedules",
      tags: TAGS,
      summary: "List schedules",
      request: { query: ScheduleListQuery },
      responses: {
        200: answers(
          "Sorted by name, in byte order; at most 20 in one page, and fewer if their data is large.",
          SchedulePage,
        ),
        ...problems("INVALID_REQUEST", "NO_SCHEDULES"),
      },
    }),
    async (context) => {
      const { limit, cursor } = context.req.valid("query");
      const { namespace } = callerOf(context);
      const schedules = schedulesOf(services);
      const items: Wire[] = [];
      let characters = 0;
      let next: string | null = cursor ?? null;
      do {
        const most = Math.min(PART, limit - items.length);
        const query = { namespace, limit: most, ...(next !== null && { cursor: next }) };
        // Fire times must be computed, which costs as much as several items.
        const page = await services.page(context, PAGE, () => schedules.list(query));
        next = page.nextCursor;
        for (const view of page.items) {
          const shown = await toWireSchedule(view, env.clock.wall());
          items.push(shown);
          characters += JSON.stringify(shown).length;
          await nextTurn();
        }
      } while (
        next !== null &&
        items.length < Math.min(limit, PAGE) &&
        characters < PAGE_CHARACTERS
      );
      return context.json({ items, nextCursor: next }, 200);
    },
  );
  otherMethods(app, "/v1/schedules", "GET");

  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/v1/schedules/{name}",
      tags: TAGS,
      summary: "Read a schedule",
      request: { params: ScheduleParams },
      responses: {
        200: answers("The schedule.", Schedule),
        ...problems("UNKNOWN_SCHEDULE", "NO_SCHEDULES"),
      },
    }),
    async (context) => {
      const { name } = context.req.valid("param");
      const { namespace } = callerOf(context);
      const schedules = schedulesOf(services);
      const read = () => schedules.get({ namespace, name });
      const view = isScheduleName(name) ? await services.page(context, 1, read) : null;
      if (!view) throw unknownSchedule();
      return context.json(await toWireSchedule(view, env.clock.wall()), 200);
    },
  );
  otherMethods(app, "/v1/schedules/:name", "GET", "PUT", "DELETE");
}

function declarationOf({
  task,
  ...times
}: z.output<typeof DeclareScheduleBody>): ScheduleDeclaration {
  return { ...times, task: { ...DEFAULTS, ...task } };
}

async function toWireSchedule(view: ScheduleView, nowMs: number): Promise<Wire> {
  const { nextFireTimes } = await loadDeclarations();
  const { namespace: _, ...schedule } = view;
  return { ...schedule, nextFireTimes: await nextFireTimes(view, nowMs) };
}

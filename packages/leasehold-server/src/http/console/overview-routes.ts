/** Routes that show a tenant as a whole: /v1/whoami, overview, elections, workers. */
import { createRoute } from "@hono/zod-openapi";
import type { Overview, Series } from "leasehold/internal/wire";
import {
  Elections,
  OverviewQuery,
  Overview as OverviewSchema,
  Whoami,
  Workers,
} from "../../protocol/index.js";
import { mayOf } from "../auth/access.js";
import { callerOf } from "../auth/caller.js";
import type { TenantActivity } from "../events/activity.js";
import { probe } from "../health-routes.js";
import type { About } from "../openapi.js";
import { problemOf } from "../problems.js";
import type { Budget } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, onlyProblems, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { electionsOf } from "./elections.js";
import { beganAt } from "./per-second.js";
import { withClaims, workersOf } from "./workers.js";

const TAGS = ["console"];

export function overviewRoutes(app: App, services: Services, about: About): void {
  const { env, leases, tasks, activities } = services;
  const { version } = about;

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/whoami",
      tags: TAGS,
      summary: "Read the caller's identity and permissions",
      responses: {
        200: answers("The identity of the caller's key.", Whoami),
        ...onlyProblems("CLOSING", "INTERNAL"),
      },
    }),
    (context) => {
      const caller = callerOf(context);
      const { namespace, role, prefixes, actor, keyId } = caller;
      const has = {
        control: services.control !== undefined,
        history: services.history !== undefined,
      };
      const who = { namespace, role, prefixes: [...prefixes], actor, keyId, may: mayOf(caller) };
      return context.json({ ...who, ...has, version }, 200);
    },
  );
  otherMethods(app, "/v1/whoami", "GET");

  app.openapi(
    createRoute({
      ...needs("readAll"),
      method: "get",
      path: "/v1/overview",
      tags: TAGS,
      summary: "Read counts of leases and tasks, rates, and the health of the store",
      request: { query: OverviewQuery },
      responses: {
        200: answers("Returned also while the store is unavailable.", OverviewSchema),
        ...onlyProblems(
          "INVALID_REQUEST",
          "CLOSING",
          "OVERLOADED",
          "TOO_MANY_REQUESTS",
          "INTERNAL",
        ),
      },
    }),
    async (context) => {
      const { seconds } = context.req.valid("query");
      const { namespace } = callerOf(context);
      const budget = services.budget(context);
      const activity = activities.of(namespace);
      const [health, statistics, counts] = await Promise.all([
        healthOf(services, budget),
        orNull(services.scan(context, () => services.statistics.of(namespace))),
        orNull(services.scan(context, () => services.counts.of(namespace))),
      ]);
      if (counts) {
        activity.depth.set("pending", counts.pending);
        activity.depth.set("running", counts.running);
      }
      const { id, sinceMs } = services.instance;
      const upForMs = Math.floor(env.clock.monotonic() - sinceMs);
      const overview: Overview = {
        instance: {
          id,
          version,
          upForMs,
          now: new Date(env.clock.wall()).toISOString(),
        },
        engine: {
          name: about.engine ?? null,
          leases: { ...leases.capabilities, ttl: services.ttl.leases },
          tasks: { ttl: services.ttl.tasks, watch: tasks.capabilities.watch },
        },
        health,
        leases: statistics && {
          held: statistics.held,
          ended: statistics.ended,
          complete: statistics.complete,
        },
        tasks: counts,
        contended: activity.recent.contended(),
        series: seriesOf(services, activity, seconds),
        latency: services.latencies.byOperation(),
      };
      return context.json(overview, 200);
    },
  );
  otherMethods(app, "/v1/overview", "GET");

  app.openapi(
    createRoute({
      ...needs("readAll"),
      method: "get",
      path: "/v1/elections",
      tags: TAGS,
      summary: "List elections with their leaders, earlier terms, and shard members",
      responses: {
        200: answers("Elections of Elector, Singleton and Shards.", Elections),
        ...problems(),
      },
    }),
    async (context) => {
      const { namespace } = callerOf(context);
      const read = async () => electionsOf(await services.statistics.of(namespace), services.terms);
      const elections = await services.scan(context, read);
      return context.json({ ...elections, history: services.history !== undefined }, 200);
    },
  );
  otherMethods(app, "/v1/elections", "GET");

  app.openapi(
    createRoute({
      ...needs("readAll"),
      method: "get",
      path: "/v1/workers",
      tags: TAGS,
      summary: "List live workers, what they hold, their last claims, and kinds that none handles",
      responses: { 200: answers("Sorted by holder.", Workers), ...problems() },
    }),
    async (context) => {
      const { namespace } = callerOf(context);
      const { recent } = activities.of(namespace);
      const read = async () => ({
        ...(await workersOf(services, namespace)),
        unhandled: await services.unhandled.of(namespace),
      });
      const { workers, complete, unhandled } = await services.scan(context, read);
      const items = withClaims(workers, recent.claimers());
      return context.json({ items, complete, forMs: recent.forMs, unhandled }, 200);
    },
  );
  otherMethods(app, "/v1/workers", "GET");
}

async function healthOf(services: Services, budget: Budget): Promise<Overview["health"]> {
  const { clock } = services.env;
  const sentMs = clock.monotonic();
  const took = () => Math.round(clock.monotonic() - sentMs);
  try {
    await budget.read(() => probe(services));
    return { ok: true, tookMs: took(), detail: null };
  } catch (error) {
    return { ok: false, tookMs: took(), detail: problemOf(error).message };
  }
}

/** Null if the store is unavailable. */
async function orNull<T>(reading: Promise<T>): Promise<T | null> {
  return reading.catch((error: unknown) => {
    if (["INTERNAL", "TOO_MANY_REQUESTS", "CLOSING"].includes(problemOf(error).code)) throw error;
    return null;
  });
}

function seriesOf(
  { env, latencies }: Pick<Services, "env" | "latencies">,
  { figures, depth }: TenantActivity,
  seconds: number,
): Series {
  const row = (name: Parameters<typeof figures.of>[0]) => figures.of(name, seconds);
  const sampled = (name: "pending" | "running") =>
    depth.of(name, seconds).map((value) => (value < 0 ? null : value));
  return {
    from: beganAt(env.clock, seconds),
    seconds,
    leases: {
      acquired: row("lease acquired"),
      contended: row("lease contended"),
      renewed: row("lease renewed"),
      released: row("lease released"),
      revoked: row("lease revoked"),
      reclaimed: row("lease reclaimed"),
      lost: {
        expired: row("lost expired"),
        revoked: row("lost revoked"),
        taken: row("lost taken"),
        gone: row("lost gone"),
      },
    },
    tasks: {
      enqueued: row("task enqueued"),
      claimed: row("task claimed"),
      heartbeats: row("task renewed"),
      completed: row("task completed"),
      failed: row("task failed"),
      expired: row("task expired"),
      refused: row("task refused"),
      pending: sampled("pending"),
      running: sampled("running"),
    },
    store: latencies.series(seconds),
  };
}

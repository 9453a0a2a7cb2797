/** What a server measures beside its stores' calls: its requests, and what its stores hold. */
import type { Context, MiddlewareHandler } from "hono";
import type { Clock, Env, LeaseStore } from "leasehold";
import type { MetricName, Observation } from "leasehold/internal";
import { type GeneratorState, TASK_STATES, type TaskStore } from "leasehold/internal";
import type { Telemetry } from "leasehold/telemetry";
import { routeOf } from "./auth/access.js";
import type { AppEnv } from "./request.js";

/** Counting tasks reads all of a tenant's, so no scraper may ask for it more often. */
const SAMPLE_EVERY_MS = 15_000;
/** Of a tenant, live grants are looked through for the oldest up to this many pages. */
const MOST_PAGES = 5;
const PAGE = 200;
/** Tenants of this instance whose tasks and grants are sampled: those that came first. */
const MOST_TENANTS = 100;

const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];

/** Times and traces each request by the pattern of its route, and notes which tenants there are. */
export function measuredRequests(
  { telemetry, clock }: Env & { telemetry: Telemetry },
  tenants: Set<string>,
): MiddlewareHandler<AppEnv> {
  return async (context, next) => {
    const { req } = context;
    const parent = telemetry.incoming((name) => req.raw.headers.get(name));
    const method = METHODS.includes(req.method) ? req.method : "_OTHER";
    const attributes = { "http.request.method": method };
    await telemetry.span(method, { kind: "server", parent, attributes }, async (span) => {
      const sinceMs = clock.monotonic();
      await next();
      const route = patternOf(context);
      const { status } = context.res;
      const answered = { "http.route": route, "http.response.status_code": status };
      span.rename(`${method} ${route}`);
      span.set(answered);
      if (status >= 500) span.fail();
      const labels = { ...attributes, ...answered, "http.response.status_code": `${status}` };
      telemetry.measure("http.server.request.duration", labels, clock.monotonic() - sinceMs);
    });
    const tenant = context.get("caller")?.namespace;
    if (tenant !== undefined && tenants.size < MOST_TENANTS) tenants.add(tenant);
  };
}

/** Of a request for no route: paths are the callers' own. */
function patternOf(context: Context<AppEnv>): string {
  return routeOf(context)?.replace(/^\w+ /, "") ?? "none";
}

export interface Sampled {
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly generator: GeneratorState;
  readonly clock: Clock;
  /** Whose tasks and grants are counted, together. */
  readonly tenants: ReadonlySet<string>;
  /** Whose generator it is. */
  readonly namespace: string;
}

/** Tells how much there is to do and to hold; the returned function ends it. */
export function observeStores(telemetry: Telemetry, sampled: Sampled): () => void {
  const { leases, tasks, generator, clock, tenants, namespace } = sampled;
  const sample = <Name extends MetricName>(read: () => Promise<Observation<Name>[]>) =>
    atMostEvery(clock, SAMPLE_EVERY_MS, read);
  const ends = [
    telemetry.observe(
      "leasehold.task.depth",
      sample(async () => {
        const all = await Promise.all([...tenants].map((tenant) => tasks.counts(tenant)));
        return TASK_STATES.map((state) => ({
          value: all.reduce((sum, counts) => sum + counts[state], 0),
          labels: { state },
        }));
      }),
    ),
    telemetry.observe(
      "leasehold.lease.held.age.max",
      sample(async () => {
        const ages = await Promise.all([...tenants].map((tenant) => oldestMs(leases, tenant)));
        return [{ value: Math.max(0, ...ages) / 1_000, labels: {} }];
      }),
    ),
    telemetry.observe(
      "leasehold.generator.rate",
      sample(async () => {
        const { running, ratePerSecond } = await generator.read(namespace);
        return [{ value: running ? ratePerSecond : 0, labels: {} }];
      }),
    ),
  ];
  return () => {
    for (const end of ends) end();
  };
}

/** Age of the oldest live grant, by the store's clock alone. */
async function oldestMs(leases: LeaseStore, namespace: string): Promise<number> {
  let oldest = 0;
  let cursor: string | null | undefined;
  for (let pages = 0; pages < MOST_PAGES && cursor !== null; pages += 1) {
    const after = cursor === undefined ? {} : { cursor };
    const page = await leases.list({ namespace, states: ["live"], limit: PAGE, ...after });
    for (const { grantedAt, expiresAt, remainingMs } of page.items) {
      if (grantedAt === null || expiresAt === null) continue;
      oldest = Math.max(oldest, Date.parse(expiresAt) - remainingMs - Date.parse(grantedAt));
    }
    cursor = page.nextCursor;
  }
  return oldest;
}

/** The last answer while it is younger; one call at a time. A failure is not kept. */
function atMostEvery<T>(clock: Clock, everyMs: number, read: () => Promise<T>): () => Promise<T> {
  let last: { readonly atMs: number; readonly answer: Promise<T> } | undefined;
  return () => {
    const nowMs = clock.monotonic();
    if (!last || nowMs - last.atMs >= everyMs) {
      const asked = { atMs: nowMs, answer: read() };
      last = asked;
      asked.answer.catch(() => {
        if (last === asked) last = undefined;
      });
    }
    return last.answer;
  };
}

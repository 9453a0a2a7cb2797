/** The server's own metrics: its requests, and samples of its stores. */
import type { MiddlewareHandler } from "hono";
import type { Clock, Env, LeaseStore } from "leasehold";
import {
  type LimitView,
  METRICS,
  type MetricName,
  measureStalls,
  nextTurn,
  type Observation,
  TASK_STATES,
  type TaskLimits,
  type TaskStore,
  withTimeout,
} from "leasehold/internal";
import type { Telemetry } from "leasehold/telemetry";
import type { GeneratorState } from "../generator/state.js";
import type { Caller } from "./auth/caller.js";
import type { Admission } from "./limits/admission.js";
import type { TenantAdmission } from "./limits/tenant-admission.js";
import type { Tenants } from "./limits/tenants.js";
import type { Refusals } from "./refusals.js";
import type { AppEnv } from "./request.js";
import { routeOf } from "./route-rules.js";

/** Counting tasks reads all tasks of a tenant, so scrapers share a sample for this long. */
const SAMPLE_EVERY_MS = 15_000;
/** The longest that a scrape waits for a sample, far below any scrape timeout. */
const MAX_SAMPLE_WAIT_MS = 100;
const MAX_SAMPLE_AGE_MS = 60_000;
/** Pages of live grants that are read to find a tenant's oldest. */
const MAX_PAGES = 5;
const PAGE = 200;
/** Tenants of this instance whose tasks and grants are sampled: the first ones that sent requests. */
const MAX_TENANTS = 100;
/** Limits that are series of their own. */
const MOST_LIMITS = 20;
/** Blocked concurrency keys that are counted. */
const MOST_KEYS = 1_000;

const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];

/** What has become of a request. */
interface Answered {
  /** In the spelling of the table of routes; null: none. */
  readonly route: string | null;
  readonly status: number;
  /** Its tenant; undefined: the caller is not known. */
  readonly tenant: string | undefined;
}

/** Measures and traces each request by its route pattern, and adds its tenant to `tenants`. */
export class RequestMeter {
  readonly #telemetry: Telemetry;
  readonly #clock: Clock;
  readonly #tenants: Set<string>;

  constructor({ telemetry, clock }: Env & { telemetry: Telemetry }, tenants: Set<string>) {
    this.#telemetry = telemetry;
    this.#clock = clock;
    this.#tenants = tenants;
  }

  async measure(request: Request, serve: () => Promise<Answered>): Promise<void> {
    const telemetry = this.#telemetry;
    const parent = telemetry.incoming((name) => request.headers.get(name));
    const method = METHODS.includes(request.method) ? request.method : "_OTHER";
    const attributes = { "http.request.method": method };
    await telemetry.span(method, { kind: "server", parent, attributes }, async (span) => {
      const sinceMs = this.#clock.monotonic();
      const { route, status, tenant } = await serve();
      // The paths of unknown routes are the callers' text and must not become labels.
      const pattern = route?.replace(/^\w+ /, "") ?? "none";
      const answered = { "http.route": pattern, "http.response.status_code": status };
      span.rename(`${method} ${pattern}`);
      span.set(answered);
      if (status >= 500) span.fail();
      const labels = { ...attributes, ...answered, "http.response.status_code": `${status}` };
      telemetry.count("leasehold.server.responses", { class: classOf(status) });
      telemetry.measure("http.server.request.duration", labels, this.#clock.monotonic() - sinceMs);
      if (tenant !== undefined && this.#tenants.size < MAX_TENANTS) this.#tenants.add(tenant);
    });
  }
}

export function measuredRequests(meter: RequestMeter): MiddlewareHandler<AppEnv> {
  return (context, next) =>
    meter.measure(context.req.raw, async () => {
      await next();
      const caller = context.get("caller") as Caller | undefined;
      return {
        route: routeOf(context),
        status: context.res.status,
        tenant: caller?.namespace,
      };
    });
}

function classOf(status: number): "2xx" | "3xx" | "4xx" | "5xx" {
  if (status >= 500) return "5xx";
  if (status >= 400) return "4xx";
  return status >= 300 ? "3xx" : "2xx";
}

export interface Limiting {
  readonly admission: Pick<Admission, "used">;
  readonly tenantAdmission: Pick<TenantAdmission, "used">;
  readonly tenants: Pick<Tenants, "used">;
  readonly refusals: Pick<Refusals, "longestMs">;
}

/** Observes what this instance has and how much of it is in use. The returned function ends it. */
export function observeLimiting(telemetry: Telemetry, limiting: Limiting): () => void {
  const ends = [
    telemetry.observe("leasehold.server.used", () => {
      const { requests, eventLoop } = limiting.admission.used;
      const { bodies, answers } = limiting.tenantAdmission.used;
      const used = { requests, event_loop: eventLoop, bodies, answers, ...limiting.tenants.used };
      const names = METRICS["leasehold.server.used"].labels.of;
      return names.map((of) => ({ value: used[of], labels: { of } }));
    }),
    telemetry.observe("leasehold.server.held_back.max", () => [
      { value: limiting.refusals.longestMs / 1_000, labels: {} },
    ]),
  ];
  return () => {
    for (const end of ends) end();
  };
}

export interface Sampled {
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly generator: Pick<GeneratorState, "read">;
  readonly clock: Clock;
  /** Tenants whose tasks and grants are sampled, as one sum. */
  readonly tenants: ReadonlySet<string>;
  /** Namespace of the generator. */
  readonly namespace: string;
}

/** Observes tasks, grants, the generator, and pauses of this process. The returned function ends it. */
export function observeStores(telemetry: Telemetry, sampled: Sampled): () => void {
  const { leases, tasks, generator, clock, tenants, namespace } = sampled;
  const sample = <Name extends MetricName>(read: () => Promise<Observation<Name>[]>) =>
    atMostEvery(clock, SAMPLE_EVERY_MS, read);
  const ends = [
    measureStalls({ telemetry, clock }),
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
    ...(tasks.limits ? observeLimits(telemetry, sampled, tasks.limits) : []),
    telemetry.observe(
      "leasehold.task.keys.blocked",
      sample(async () => {
        const all = await Promise.all(
          [...tenants].map(async (tenant) =>
            tasks.blockedKeys?.({ namespace: tenant, limit: MOST_KEYS }),
          ),
        );
        const value = all.reduce((sum, keys) => sum + (keys?.length ?? 0), 0);
        return [{ value: Math.min(value, MOST_KEYS), labels: {} }];
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

/** The limits of the server's own namespace: their names are labels. */
function observeLimits(
  telemetry: Telemetry,
  { clock, namespace }: Pick<Sampled, "clock" | "namespace">,
  limits: TaskLimits,
): (() => void)[] {
  const shareOf = ({ live, running }: LimitView) => live / (running ?? Number.POSITIVE_INFINITY);
  const read = async () =>
    (await limits.list(namespace))
      .filter(({ running }) => running !== null)
      .sort((a, b) => shareOf(b) - shareOf(a))
      .slice(0, MOST_LIMITS);
  const sample = (valueOf: (limit: LimitView) => number) =>
    atMostEvery(clock, SAMPLE_EVERY_MS, async () =>
      (await read()).map((limit) => ({
        value: valueOf(limit),
        labels: { limit: `${limit.scope} ${limit.name}` },
      })),
    );
  return [
    telemetry.observe(
      "leasehold.task.limit.running",
      sample(({ live }) => live),
    ),
    telemetry.observe(
      "leasehold.task.limit.most",
      sample(({ running }) => running ?? 0),
    ),
  ];
}

/** Age of the oldest live grant, by the store's clock only. */
async function oldestMs(leases: LeaseStore, namespace: string): Promise<number> {
  let oldest = 0;
  let cursor: string | null | undefined;
  for (let pages = 0; pages < MAX_PAGES && cursor !== null; pages += 1) {
    // A store in this process does not yield by itself.
    if (pages > 0) await nextTurn();
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

/**
 * Reuses the last observations until they are `everyMs` old. A scrape waits only briefly for new ones: while
 * the store is slow or unavailable, the counters that show it must still be scraped. A late read serves the
 * next scrape. Observations older than `MAX_SAMPLE_AGE_MS` are not reported.
 */
function atMostEvery<T>(
  clock: Clock,
  everyMs: number,
  read: () => Promise<readonly T[]>,
): () => Promise<readonly T[]> {
  let last: { readonly atMs: number; readonly observations: readonly T[] } | undefined;
  let reading: Promise<void> | undefined;
  const readAgain = async () => {
    try {
      const observations = await read();
      last = { atMs: clock.monotonic(), observations };
    } catch {
      // The next scrape reads again.
    } finally {
      reading = undefined;
    }
  };
  const ageMs = () => (last ? clock.monotonic() - last.atMs : Number.POSITIVE_INFINITY);
  return async () => {
    if (ageMs() >= everyMs) {
      reading ??= readAgain();
      await withTimeout(clock, MAX_SAMPLE_WAIT_MS, reading, () => {});
    }
    return last && ageMs() <= MAX_SAMPLE_AGE_MS ? last.observations : [];
  };
}

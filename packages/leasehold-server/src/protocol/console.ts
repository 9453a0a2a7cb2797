/**
 * The schemas of what consoles ask for. Figures of the store are everybody's; what one instance has seen
 * happen is said to be so: `forMs` is since when it looks, and what went through others is not in it.
 */
import { z } from "@hono/zod-openapi";
import type * as wire from "leasehold/internal/wire";
import { LIMITS } from "leasehold/internal/wire";
import { Cursor, Name, PageOf, QueryInteger, Token } from "./fields.js";
import { ApiKey, Prefix } from "./keys.js";
import { Capabilities, LeaseState, LeaseView } from "./leases.js";
import { Pause } from "./operator.js";
import type { Same } from "./same.js";
import { Counts, State } from "./tasks.js";

/** Of which a server keeps figures. */
export const MOST_SECONDS = 300;
/** What has happened that a server keeps of a tenant. */
export const MOST_RECENT = 1_000;

const forMs = z.number().openapi({ description: "Since when this instance has looked." });

export const Whoami = z
  .object({
    namespace: z.string(),
    role: ApiKey.shape.role,
    prefixes: z.array(z.string()),
    actor: z.string().openapi({ description: "As in the audit." }),
    keyId: z.string().nullable().openapi({ description: "null: no key is asked for." }),
    may: z.array(z.string()).openapi({
      description: "Which of the values of `x-needs` this caller has, each within its prefixes.",
    }),
    control: z.boolean().openapi({ description: "Whether there are pauses, an audit and keys." }),
    history: z.boolean().openapi({ description: "Whether replaced grants are kept." }),
    version: z.string(),
  })
  .openapi("Whoami");
true satisfies Same<z.infer<typeof Whoami>, wire.Whoami>;

export const OverviewQuery = z.strictObject({ seconds: QueryInteger(1, MOST_SECONDS, 60) });

const PerSecond = z.array(z.int()).openapi({ description: "Per second, the oldest first." });
const Sampled = z
  .array(z.int().nullable())
  .openapi({ description: "Of the whole store; null: not looked at in that second." });
const PerSecondMs = z
  .array(z.number().nullable())
  .openapi({ description: "null: no call ended in that second." });

const Series = z
  .object({
    from: z.string().openapi({ description: "When the first second began." }),
    seconds: z.int().openapi({ description: "The last one is under way." }),
    leases: z.object({
      acquired: PerSecond,
      contended: PerSecond,
      renewed: PerSecond,
      released: PerSecond,
      revoked: PerSecond,
      reclaimed: PerSecond.openapi({ description: "Expired grants that a new one replaced." }),
      lost: z
        .object({ expired: PerSecond, revoked: PerSecond, taken: PerSecond, gone: PerSecond })
        .openapi({ description: "Renewals that were refused, by reason." }),
    }),
    tasks: z.object({
      enqueued: PerSecond,
      claimed: PerSecond,
      heartbeats: PerSecond,
      completed: PerSecond,
      failed: PerSecond,
      expired: PerSecond,
      refused: PerSecond,
      pending: Sampled,
      running: Sampled,
    }),
    store: z
      .object({ p50Ms: PerSecondMs, p99Ms: PerSecondMs })
      .openapi({ description: "Of this instance's calls, of all tenants." }),
  })
  .openapi("Series");

const Latency = z
  .object({
    store: z.enum(["leases", "tasks"]),
    operation: z.string(),
    calls: z.int(),
    p50Ms: z.number(),
    p99Ms: z.number(),
  })
  .openapi("Latency");

export const Overview = z
  .object({
    instance: z.object({
      id: z
        .string()
        .openapi({ description: "Of this process's app: another one after a restart." }),
      version: z.string(),
      upForMs: z.number(),
      now: z.string(),
    }),
    engine: z.object({
      name: z
        .string()
        .nullable()
        .openapi({ description: "`postgres`, `memory` ...; null: not said." }),
      ...Capabilities.shape,
    }),
    health: z.object({
      ok: z.boolean().openapi({ description: "The stores answer, as /readyz asks them." }),
      tookMs: z.number(),
      detail: z.string().nullable(),
    }),
    leases: z
      .object({
        held: z.int(),
        ended: z.int().openapi({ description: "Free, with a record of the last grant." }),
        complete: z.boolean().openapi({ description: "false: there are more than were counted." }),
      })
      .nullable()
      .openapi({
        description: "Of the whole store, looked at every 2 s at most; null: it does not answer.",
      }),
    tasks: z.union([Counts, z.null()]),
    contended: z
      .object({
        resources: z.int().openapi({ description: "That met a holder within the last minute." }),
        waiting: z.int().openapi({ description: "Who was refused and will ask again." }),
      })
      .openapi({ description: "As this instance has seen it." }),
    series: Series.openapi({
      description: "What went through this instance, of this tenant but for `store`.",
    }),
    latency: z
      .array(Latency)
      .openapi({ description: "Of this instance's calls of the last minute, of all tenants." }),
  })
  .openapi("Overview");
true satisfies Same<z.infer<typeof Overview>, wire.Overview>;

export const ACTIVITY_TOPICS = ["lease", "task", "operator"] as const;
true satisfies Same<(typeof ACTIVITY_TOPICS)[number], wire.Activity["topic"]>;

export const ActivityQuery = z.strictObject({
  of: z.enum(ACTIVITY_TOPICS).optional().openapi({ description: "Default: of all." }),
  last: QueryInteger(0, MOST_RECENT, 0).openapi({
    description: "How many of the past to begin with, where the stream does not go on.",
  }),
});

const Refusal = z
  .object({
    at: z.string(),
    topic: z.enum(["lease", "task"]),
    operation: z
      .string()
      .openapi({ description: "renew, release, heartbeat, complete, fail, return" }),
    reason: z.string().openapi({ description: "expired, taken, revoked, gone, cancelled ..." }),
    resource: z.string(),
    holder: z
      .string()
      .nullable()
      .openapi({ description: "null: granted before this instance looked." }),
    token: z.int().nullable().openapi({ description: "As whoever was refused has said it." }),
    grantId: z.string().nullable(),
  })
  .openapi("RefusedCall");

export const RefusalsQuery = z.strictObject({
  prefix: Prefix.optional(),
  limit: QueryInteger(1, LIMITS.page, 100),
});
export const Refusals = z
  .object({ forMs, items: z.array(Refusal).openapi({ description: "The latest first." }) })
  .openapi("RefusedCalls");
true satisfies Same<z.infer<typeof Refusals>, wire.Refusals>;

const Waiter = z
  .object({
    grantId: z.string(),
    holder: z.string(),
    ahead: z
      .int()
      .nullable()
      .openapi({ description: "In line before it, where the store queues." }),
    askedAt: z.string(),
  })
  .openapi("Waiter");

const renewals = z
  .int()
  .nullable()
  .openapi({ description: "Through this instance; null: it has not seen the grant." });

const GrantRecord = LeaseView.omit({ resource: true })
  .extend({ renewals, endedAt: z.string().nullable() })
  .openapi("GrantRecord");

export const ResourceQuery = z.strictObject({
  name: Name,
  limit: QueryInteger(1, LIMITS.page, 50),
  cursor: Cursor.optional(),
});
export const Resource = z
  .object({
    resource: z.string(),
    ...PageOf(GrantRecord).shape,
    history: z.boolean().openapi({ description: "false: only the last grant is known." }),
    pause: z.union([Pause, z.null()]),
    forMs,
    waiters: z.array(Waiter).openapi({ description: "As this instance has seen them, in line." }),
    refusals: z
      .array(Refusal)
      .openapi({ description: "As this instance has seen them, the latest first." }),
  })
  .openapi("Resource");
true satisfies Same<z.infer<typeof Resource>, wire.Resource>;

export const SeenBody = z.array(Name).min(1).max(LIMITS.page);
export const Seen = z
  .array(
    z
      .object({ resource: z.string(), renewals, waiters: z.int(), refusals: z.int() })
      .openapi("SeenResource"),
  )
  .openapi("Seen");
true satisfies Same<z.infer<typeof Seen>, wire.Seen>;

const Term = z
  .object({
    holder: z.string(),
    token: Token,
    grantId: z.string(),
    since: z.string().nullable(),
    endedAt: z.string().nullable(),
    state: LeaseState,
    vacantMs: z.number().nullable().openapi({
      description: "From the end of the term before it; null: that is not known.",
    }),
  })
  .openapi("ElectionTerm");
const Election = z
  .object({
    name: z.string().openapi({ description: "The resource of its lease." }),
    kind: z.enum(["elector", "singleton"]),
    leader: z.string().nullable().openapi({ description: "null: nobody leads now." }),
    token: Token.openapi({ description: "Of the last term." }),
    grantId: z.string(),
    since: z.string().nullable(),
    endedAt: z.string().nullable(),
    state: LeaseState,
    ttlMs: z.number(),
    remainingMs: z.number(),
    terms: z
      .array(Term)
      .openapi({ description: "The newest first, this one included; 20 at most." }),
  })
  .openapi("Election");
const ShardGroup = z
  .object({
    name: z.string(),
    coordinator: z.string().nullable(),
    members: z.array(z.object({ member: z.string(), holder: z.string(), remainingMs: z.number() })),
    shards: z.array(
      z.object({
        shard: z.int(),
        holder: z.string().nullable().openapi({ description: "null: nobody works on it now." }),
        token: Token,
        since: z.string().nullable(),
        remainingMs: z.number(),
      }),
    ),
  })
  .openapi("ShardGroup");
export const Elections = z
  .object({
    items: z.array(Election).openapi({ description: "By name; 1,000 at most." }),
    shards: z.array(ShardGroup).openapi({ description: "By name." }),
    complete: z
      .boolean()
      .openapi({ description: "false: there are more elections, or leases, than were looked at." }),
    history: z.boolean().openapi({ description: "false: of each only the last term is known." }),
  })
  .openapi("Elections");
true satisfies Same<z.infer<typeof Elections>, wire.Elections>;

const Workers_ = z
  .object({
    holder: z.string(),
    lastHeartbeatAt: z.string().nullable(),
    holds: z.array(z.string()).openapi({ description: "Resources, tasks as `task:ID`." }),
    claims: z
      .object({
        queues: z.array(z.string()),
        kinds: z.array(z.string()).nullable().openapi({ description: "null: any." }),
        at: z.string(),
        waiting: z.boolean().openapi({ description: "It waits for a task now." }),
      })
      .nullable()
      .openapi({ description: "The last one that this instance has seen; null: none of late." }),
  })
  .openapi("Worker");
export const Workers = z
  .object({
    items: z.array(Workers_).openapi({ description: "By holder." }),
    complete: z
      .boolean()
      .openapi({ description: "false: there are more live leases than were read." }),
    forMs,
  })
  .openapi("Workers");
true satisfies Same<z.infer<typeof Workers>, wire.Workers>;

const WHY_CODES = [
  "running",
  "done",
  "dead",
  "cancelled",
  "scheduled",
  "retrying",
  "paused",
  "noWorker",
  "behind",
  "due",
] as const;
export const Why = z
  .object({
    id: z.string(),
    state: State,
    reasons: z
      .array(
        z.object({
          code: z.enum(WHY_CODES as unknown as [string, ...string[]]),
          text: z.string().openapi({ description: "A sentence for people." }),
          inMs: z
            .number()
            .nullable()
            .openapi({ description: "scheduled, retrying: when it is due." }),
          ahead: z.int().nullable().openapi({ description: "behind: tasks that come before it." }),
        }),
      )
      .openapi({ description: "The most decisive first." }),
  })
  .openapi("Why");
true satisfies Same<z.infer<typeof Why>, wire.Why>;

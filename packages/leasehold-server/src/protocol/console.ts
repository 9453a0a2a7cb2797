/**
 * Schemas of the console's routes. Some figures describe the whole store. Others describe one instance:
 * they cover the calls that went through it since `forMs` ago, and none that went through others.
 */
import { z } from "@hono/zod-openapi";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS } from "leasehold/internal/wire";
import { Cursor, Name, ONLY_SERVERS_RECORD, PageOf, QueryInteger, Token } from "./fields.js";
import { ApiKey, Prefix } from "./keys.js";
import { Capabilities, LeaseState, LeaseView } from "./leases.js";
import { Pause } from "./operator.js";
import type { Same } from "./same.js";
import { Counts } from "./tasks.js";

/** Seconds for which an instance keeps figures. */
export const MAX_SECONDS = 300;
/** Activities that an instance keeps for each tenant. */
export const MAX_ACTIVITIES = 1_000;

const forMs = z
  .number()
  .openapi({ description: "How long this instance has been recording, in milliseconds." });

export const Whoami = z
  .object({
    namespace: z.string(),
    role: ApiKey.shape.role,
    prefixes: z.array(z.string()),
    actor: z.string().openapi({ description: "The caller's name in the audit." }),
    keyId: z.string().nullable().openapi({ description: "null: the server requires no key." }),
    may: z.array(z.string()).openapi({
      description: "The values of `x-needs` that this caller satisfies, within its prefixes.",
    }),
    control: z
      .boolean()
      .openapi({ description: "Whether the server has pauses, an audit and keys." }),
    history: z.boolean().openapi({
      description: `Whether the server keeps replaced grants. ${ONLY_SERVERS_RECORD}`,
    }),
    version: z.string(),
  })
  .openapi("Whoami");
true satisfies Same<z.infer<typeof Whoami>, wire.Whoami>;

export const OverviewQuery = z.strictObject({ seconds: QueryInteger(1, MAX_SECONDS, 60) });

const PerSecond = z.array(z.int()).openapi({ description: "Per second, oldest first." });
const Sampled = z
  .array(z.int().nullable())
  .openapi({ description: "Per second, for the whole store; null: not sampled in that second." });
const PerSecondMs = z
  .array(z.number().nullable())
  .openapi({ description: "Per second; null: no call ended in that second." });

const Series = z
  .object({
    from: z.string().openapi({ description: "Start of the first second." }),
    seconds: z
      .int()
      .openapi({ description: "Number of seconds. The last one is still in progress." }),
    leases: z.object({
      acquired: PerSecond,
      contended: PerSecond,
      renewed: PerSecond,
      released: PerSecond,
      revoked: PerSecond,
      reclaimed: PerSecond.openapi({ description: "Expired grants that a new grant replaced." }),
      lost: z
        .object({ expired: PerSecond, revoked: PerSecond, taken: PerSecond, gone: PerSecond })
        .openapi({ description: "Refused renewals, by reason." }),
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
      .openapi({ description: "Latency of this instance's calls to the store, for all tenants." }),
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
      id: z.string().openapi({ description: "Names this instance. It changes with a restart." }),
      version: z.string(),
      upForMs: z.number(),
      now: z.string(),
    }),
    engine: z.object({
      name: z
        .string()
        .nullable()
        .openapi({ description: "`postgres`, `memory` ...; null: unknown." }),
      ...Capabilities.shape,
    }),
    health: z.object({
      ok: z
        .boolean()
        .openapi({ description: "The stores are available, by the check of /readyz." }),
      tookMs: z.number(),
      detail: z.string().nullable(),
    }),
    leases: z
      .object({
        held: z.int().openapi({
          description: "Resources with a live lease, or a revoked one that still excludes others.",
        }),
        ended: z
          .int()
          .openapi({ description: "Free resources with a record of their last grant." }),
        complete: z
          .boolean()
          .openapi({ description: "false: there are more leases than the server counted." }),
      })
      .nullable()
      .openapi({
        description: "For the whole store, read at most every 2 s; null: the store is unavailable.",
      }),
    tasks: z.union([Counts, z.null()]),
    contended: z
      .object({
        resources: z
          .int()
          .openapi({ description: "Resources with a refused acquire within the last minute." }),
        waiting: z.int().openapi({ description: "Waiters." }),
      })
      .openapi({ description: "Contention that this instance has recorded." }),
    series: Series.openapi({
      description: "Calls of this tenant through this instance; `store` covers all tenants.",
    }),
    latency: z.array(Latency).openapi({
      description: "Latency of this instance's calls within the last minute, for all tenants.",
    }),
  })
  .openapi("Overview");
true satisfies Same<z.infer<typeof Overview>, wire.Overview>;

export const ACTIVITY_TOPICS = ["lease", "task", "operator"] as const;
true satisfies Same<(typeof ACTIVITY_TOPICS)[number], wire.Activity["topic"]>;

export const ActivityQuery = z.strictObject({
  of: z.enum(ACTIVITY_TOPICS).optional().openapi({ description: "Default: all." }),
  last: QueryInteger(0, MAX_ACTIVITIES, 0).openapi({
    description: "How many past activities to send first if the stream does not resume.",
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
      .openapi({ description: "null: granted before this instance began recording." }),
    token: z.int().nullable().openapi({ description: "The token in the refused request." }),
    grantId: z.string().nullable(),
  })
  .openapi("RefusedCall");

export const RefusalsQuery = z.strictObject({
  prefix: Prefix.optional(),
  limit: QueryInteger(1, BOUNDS.page, 100),
});
export const Refusals = z
  .object({ forMs, items: z.array(Refusal).openapi({ description: "Latest first." }) })
  .openapi("RefusedCalls");
true satisfies Same<z.infer<typeof Refusals>, wire.Refusals>;

const Waiter = z
  .object({
    grantId: z.string(),
    holder: z.string(),
    ahead: z
      .int()
      .nullable()
      .openapi({ description: "Waiters ahead of it, if the store has a wait queue." }),
    askedAt: z.string(),
  })
  .openapi("Waiter");

const renewals = z.int().nullable().openapi({
  description: "Renewals through this instance; null: this instance has not recorded the grant.",
});

const endedAt = z.string().nullable().openapi({
  description: "When it ceased to exclude others; null: it still does, or the store does not know.",
});

const GrantRecord = LeaseView.omit({ resource: true })
  .extend({ renewals, endedAt })
  .openapi("GrantRecord");

export const ResourceQuery = z.strictObject({
  name: Name,
  limit: QueryInteger(1, BOUNDS.page, 50),
  cursor: Cursor.optional(),
});
export const Resource = z
  .object({
    resource: z.string(),
    ...PageOf(GrantRecord).shape,
    history: z.boolean().openapi({
      description: `false: only the last grant is known. ${ONLY_SERVERS_RECORD}`,
    }),
    pause: z.union([Pause, z.null()]),
    forMs,
    waiters: z
      .array(Waiter)
      .openapi({ description: "Waiters that this instance has recorded, in queue order." }),
    refusals: z
      .array(Refusal)
      .openapi({ description: "Refusals that this instance has recorded, latest first." }),
    denied: z
      .object({ code: z.enum(["FORBIDDEN", "LIMIT_REACHED"]), detail: z.string() })
      .nullable()
      .openapi({ description: "Why an acquire of the caller would be refused, also when free." }),
  })
  .openapi("Resource");
true satisfies Same<z.infer<typeof Resource>, wire.Resource>;

export const SeenBody = z.array(Name).min(1).max(BOUNDS.page);
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
    endedAt,
    state: LeaseState,
    vacantMs: z.number().nullable().openapi({
      description: "Time without a leader before this term; null: unknown.",
    }),
  })
  .openapi("ElectionTerm");
const Election = z
  .object({
    name: z.string().openapi({ description: "The resource of the election's lease." }),
    kind: z.enum(["elector", "singleton"]),
    leader: z.string().nullable().openapi({ description: "null: there is no leader now." }),
    token: Token.openapi({ description: "Fencing token of the last term." }),
    grantId: z.string(),
    since: z.string().nullable(),
    endedAt,
    state: LeaseState,
    ttlMs: z.number(),
    remainingMs: z.number(),
    terms: z
      .array(Term)
      .openapi({ description: "Newest first, including the current term; at most 20." }),
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
        holder: z
          .string()
          .nullable()
          .openapi({ description: "null: no member holds the shard now." }),
        token: Token,
        since: z.string().nullable(),
        remainingMs: z.number(),
      }),
    ),
  })
  .openapi("ShardGroup");
export const Elections = z
  .object({
    items: z.array(Election).openapi({ description: "By name; at most 1,000." }),
    shards: z.array(ShardGroup).openapi({ description: "By name." }),
    complete: z
      .boolean()
      .openapi({ description: "false: there are more elections or leases than the server read." }),
    history: z.boolean().openapi({
      description: `false: only the last term of each election is known. ${ONLY_SERVERS_RECORD}`,
    }),
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
        waiting: z.boolean().openapi({ description: "The worker waits for a task now." }),
        abandoned: z.int().openapi({
          description:
            "Handlers that do not end although their tasks are lost. Above 0, the worker is stuck: it takes no tasks until it is restarted.",
        }),
      })
      .nullable()
      .openapi({
        description: "The last claim that this instance has recorded; null: no recent claim.",
      }),
  })
  .openapi("Worker");
export const Workers = z
  .object({
    items: z.array(Workers_).openapi({ description: "By holder." }),
    complete: z
      .boolean()
      .openapi({ description: "false: there are more live leases than the server read." }),
    forMs,
    unhandled: z
      .array(
        z
          .object({
            queue: z.string(),
            kind: z.string(),
            version: z
              .int()
              .openapi({ description: "Of the kind: workers of earlier ones leave it." }),
            tasks: z.int().openapi({ description: "Number of due tasks." }),
            complete: z
              .boolean()
              .openapi({ description: "False: there are at least so many tasks." }),
            dueAt: z.string().openapi({ description: "Since when the oldest of them is due." }),
          })
          .openapi("UnhandledKind"),
      )
      .openapi({
        description:
          "Versions of kinds whose tasks are due for 10 s and more, while no worker has claimed them from this instance, and none has taken one within 2 minutes.",
      }),
  })
  .openapi("Workers");
true satisfies Same<z.infer<typeof Workers>, wire.Workers>;

/** Keys, pauses and limits in PostgreSQL. */
import {
  type ApiKey,
  type KeyActs,
  type KeyRecord,
  type KeyStore,
  type LimitActs,
  type LimitStore,
  NO_LIMITS,
  type Pause,
  type PauseActs,
  type PauseStore,
  type TenantLimits,
} from "../../control/index.js";
import { invariant } from "../../env/index.js";
import { CLOCK, wakeFirst } from "./lease-sql.js";
import type { Parameter, Sql } from "./query.js";

const iso = (time: string) =>
  `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const inMs = (value: string) => `clock_timestamp() + ${value}::float8 * interval '1 millisecond'`;

const KEY_COLUMNS = `k.id, k.namespace, k.name, k.role, k.prefixes, k.revoked,
  ${iso("k.created_at")} AS "createdAt", ${iso("k.expires_at")} AS "expiresAt",
  greatest(0, ceil(date_part('epoch', k.expires_at - clock_timestamp()) * 1000)) AS left_ms`;

type KeyRow = Omit<ApiKey, "prefixes" | "remainingMs"> & {
  /** JSON. */
  readonly prefixes: string;
  readonly left_ms: number;
};

const FIND_KEY = `SELECT ${KEY_COLUMNS}, k.digest FROM leasehold.api_key k WHERE k.id = $1`;
/** Values: the namespace, or null. */
const LIST_KEYS = `
SELECT ${KEY_COLUMNS} FROM leasehold.api_key k WHERE $1::text IS NULL OR k.namespace = $1
ORDER BY k.created_at DESC, k.id`;
const ANY_KEY = `
SELECT EXISTS (
  SELECT FROM leasehold.api_key k WHERE k.expires_at IS NULL OR k.expires_at > clock_timestamp()
) AS any`;
/** Values: id, namespace, name, role, prefixes, digest, lifetimeMs. */
const ADD_KEY = `
INSERT INTO leasehold.api_key AS k
  (id, namespace, name, role, prefixes, digest, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), ${inMs("$7")})
RETURNING ${KEY_COLUMNS}`;
/** Values: namespace, id, inMs. */
const END_KEY = `
UPDATE leasehold.api_key k SET expires_at = least(k.expires_at, ${inMs("$3")}),
  revoked = k.revoked
    OR ($3::float8 = 0 AND coalesce(k.expires_at > clock_timestamp(), true))
WHERE k.namespace = $1 AND k.id = $2
RETURNING ${KEY_COLUMNS}`;

export function keysIn(sql: Sql): KeyStore & KeyActs {
  const one = async (text: string, values: readonly Parameter[]) => {
    const [row] = await sql.query<KeyRow>(text, values);
    return row ? keyOf(row) : null;
  };
  return {
    async find(id): Promise<KeyRecord | null> {
      const [row] = await sql.query<KeyRow & { digest: string }>(FIND_KEY, [id]);
      return row ? { ...keyOf(row), digest: row.digest } : null;
    },
    async list(namespace) {
      return (await sql.query<KeyRow>(LIST_KEYS, [namespace])).map(keyOf);
    },
    async any() {
      const [row] = await sql.query<{ any: boolean }>(ANY_KEY);
      return row?.any ?? false;
    },
    async add({ id, namespace, name, role, prefixes, digest, lifetimeMs }) {
      const columns = [id, namespace, name, role, JSON.stringify(prefixes), digest, lifetimeMs];
      const key = await one(ADD_KEY, columns);
      invariant(key !== null, "what was inserted is returned");
      return key;
    },
    end: (namespace, id, afterMs) => one(END_KEY, [namespace, id, afterMs]),
  };
}

function keyOf(row: KeyRow): ApiKey {
  const { id, namespace, name, role, createdAt, expiresAt, revoked } = row;
  return {
    ...{ id, namespace, name, role, createdAt, expiresAt, revoked },
    prefixes: JSON.parse(row.prefixes) as string[],
    remainingMs: expiresAt === null ? null : row.left_ms,
  };
}

const PAUSE_COLUMNS = `p.namespace, p.kind, p.name, p.actor, p.reason, ${iso("p.since")} AS since`;
/** Values: the namespace, or null. */
const LIST_PAUSES = `
SELECT ${PAUSE_COLUMNS} FROM leasehold.pause p WHERE $1::text IS NULL OR p.namespace = $1
ORDER BY p.namespace, p.kind, p.name`;
/** Values: namespace, kind, name, actor, reason. */
const SET_PAUSE = `
INSERT INTO leasehold.pause AS p (namespace, kind, name, actor, reason, since)
VALUES ($1, $2, $3, $4, $5, clock_timestamp())
ON CONFLICT (namespace, kind, name) DO UPDATE
  SET actor = excluded.actor, reason = excluded.reason
RETURNING ${PAUSE_COLUMNS}`;
/** Values: namespace, kind, name. */
const CLEAR_PAUSE = `
DELETE FROM leasehold.pause p WHERE p.namespace = $1 AND p.kind = $2 AND p.name = $3 RETURNING 1`;

/**
 * What a grant looks at. Unlike grants it waits for whoever has locked the row: an act comes after
 * the statement that is under way. Values: namespace, resource.
 */
const PAUSE_RESOURCE = `
INSERT INTO leasehold.lease AS l (namespace, resource, lease_id, holder, token, ttl_ms,
  granted_at, expires_at, ended, paused)
VALUES ($1, $2, '', '', 0, 0, clock_timestamp(), clock_timestamp(), 'released', true)
ON CONFLICT (namespace, resource) DO UPDATE SET paused = true WHERE NOT l.paused`;
/** A row that was made for the pause has never been granted: no token is forgotten with it. */
const RESUME_RESOURCE = `
WITH ${CLOCK},
  unpaused AS (
    UPDATE leasehold.lease l SET paused = false
    WHERE l.namespace = $1 AND l.resource = $2 AND l.paused AND l.lease_id <> ''
  ),
  forgotten AS (
    DELETE FROM leasehold.lease l WHERE l.namespace = $1 AND l.resource = $2 AND l.lease_id = ''
  )
SELECT ${wakeFirst("k")} AS woken
FROM (SELECT $1::text AS namespace, $2::text AS resource) k CROSS JOIN clock c`;

export function pausesIn(sql: Sql): PauseStore & PauseActs {
  return {
    list: (namespace) => sql.query<Pause>(LIST_PAUSES, [namespace]),
    set: ({ namespace, kind, name, actor, reason }) =>
      sql.transaction(async (session) => {
        if (kind === "resource") await session.query(PAUSE_RESOURCE, [namespace, name]);
        const columns = [namespace, kind, name, actor, reason];
        const [pause] = await session.query<Pause>(SET_PAUSE, columns);
        invariant(pause !== undefined, "what was inserted is returned");
        return pause;
      }),
    clear: ({ namespace, kind, name }) =>
      sql.transaction(async (session) => {
        if (kind === "resource") await session.query(RESUME_RESOURCE, [namespace, name]);
        return (await session.query(CLEAR_PAUSE, [namespace, kind, name])).length > 0;
      }),
  };
}

const LIMIT_COLUMNS = `leases, tasks, rate_per_second AS "ratePerSecond"`;
const READ_LIMITS = `SELECT ${LIMIT_COLUMNS} FROM leasehold.tenant_limit WHERE namespace = $1`;
/** Values: namespace; of each limit whether it is named, and what it shall be. */
const SET_LIMITS = `
INSERT INTO leasehold.tenant_limit AS t (namespace, leases, tasks, rate_per_second)
VALUES ($1, $3::int, $5::int, $7::float8)
ON CONFLICT (namespace) DO UPDATE SET
  leases = CASE WHEN $2::bool THEN excluded.leases ELSE t.leases END,
  tasks = CASE WHEN $4::bool THEN excluded.tasks ELSE t.tasks END,
  rate_per_second = CASE WHEN $6::bool THEN excluded.rate_per_second ELSE t.rate_per_second END
RETURNING ${LIMIT_COLUMNS}`;

export function limitsIn(sql: Sql): LimitStore & LimitActs {
  return {
    async read(namespace) {
      const [row] = await sql.query<TenantLimits>(READ_LIMITS, [namespace]);
      return row ?? NO_LIMITS;
    },
    async set(namespace, { leases, tasks, ratePerSecond }) {
      const named = [leases, tasks, ratePerSecond].flatMap((value) => [
        value !== undefined,
        value ?? null,
      ]);
      const [row] = await sql.query<TenantLimits>(SET_LIMITS, [namespace, ...named]);
      return row ?? NO_LIMITS;
    },
  };
}

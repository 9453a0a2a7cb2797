/** Pauses and limits in PostgreSQL. */
import {
  NO_LIMITS,
  type Pause,
  type PauseActs,
  type PauseStore,
  type TenantLimitActs,
  type TenantLimitStore,
  type TenantLimits,
} from "../../control/index.js";
import { invariant } from "../../env/index.js";
import type { Sql } from "./connection.js";
import { iso } from "./control-api-keys.js";
import { CLOCK } from "./lease-rows.js";
import { wakeFirst } from "./wait-queue.js";

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
 * The pause flag that grants check. Unlike grants, this statement waits for a row lock: the action
 * follows the statement that holds it. Values: namespace, resource.
 */
const PAUSE_RESOURCE = `
INSERT INTO leasehold.lease AS l (namespace, resource, lease_id, holder, token, ttl_ms,
  granted_at, expires_at, ended, paused)
VALUES ($1, $2, '', '', 0, 0, clock_timestamp(), clock_timestamp(), 'released', true)
ON CONFLICT (namespace, resource) DO UPDATE SET paused = true WHERE NOT l.paused`;
/** A row created for the pause was never granted, so deleting it loses no token. */
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
        invariant(pause !== undefined, "INSERT returns the pause");
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
/** Values: namespace; for each limit whether to change it, and its new value. */
const SET_LIMITS = `
INSERT INTO leasehold.tenant_limit AS t (namespace, leases, tasks, rate_per_second)
VALUES ($1, $3::int, $5::int, $7::float8)
ON CONFLICT (namespace) DO UPDATE SET
  leases = CASE WHEN $2::bool THEN excluded.leases ELSE t.leases END,
  tasks = CASE WHEN $4::bool THEN excluded.tasks ELSE t.tasks END,
  rate_per_second = CASE WHEN $6::bool THEN excluded.rate_per_second ELSE t.rate_per_second END
RETURNING ${LIMIT_COLUMNS}`;

export function limitsIn(sql: Sql): TenantLimitStore & TenantLimitActs {
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

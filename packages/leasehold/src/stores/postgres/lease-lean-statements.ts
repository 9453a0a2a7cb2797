/**
 * The statements for the common case: requests with the same values, on resources that are free or held by the caller,
 * without waiters. Each returns one row, which lists the requests that it granted, renewed or released by their numbers.
 * A request that is missing there is undecided, and the general statement (lease-statements.ts) decides it.
 *
 *   batch ─▶ lean statement ─▶ granted, renewed, released
 *               └─ the rest ─▶ general statement ─▶ held, lost, waits, ...
 *
 * They follow the rules of the general statements: no wait for a row lock, locks and new rows in the order of the keys,
 * one time for the whole statement, tokens from the locked row. Most of their work is what the row itself costs. What
 * they leave out, and why that is safe:
 *
 * - They never wake, pass over or add waiters: a resource with a waiter is left to the general statement.
 * - The token floor is read once. It is the floor of the one namespace that all requests have.
 * - A renewal and a release look their row up and lock it in one step. If another transaction has changed it meanwhile,
 *   the lock is on a version that this statement does not see: then it changes nothing.
 */
import { epochMs, excludes, isLive, untilMs } from "./lease-rows.js";
import { afterMs } from "./statements.js";

/** The requests in the order of their resources, from the values `$at` and `$at + 1`. */
const requests = (at: number) => `(
      SELECT * FROM unnest((SELECT $${at}::text[]), (SELECT $${at + 1}::text[]))
        WITH ORDINALITY AS i (resource, asked_id, n)
      ORDER BY i.resource COLLATE "C"
    ) i`;
const ROW_OF = "l.namespace = $1 AND l.resource = i.resource";
const hasWaiter = (row: string) => `EXISTS (
        SELECT FROM leasehold.waiter w
        WHERE w.namespace = $1 AND w.resource = ${row}.resource AND w.expires_at > c.now
      )`;
/** Numbers as text, which costs client and server less than a row for each. */
const listed = (text: string, from: string) => `(SELECT string_agg(${text}, ',') FROM ${from})`;

export interface FreeRow {
  /** The token of a new row, and of most others. */
  readonly token: number;
  readonly now: number;
  /** The numbers of granted requests; with a token of their own: `number:token`. */
  readonly granted: string | null;
  /** The numbers of the requests whose rows are new, if all that were missing could be added. */
  readonly created: string | null;
  /** A JSON array of their resources otherwise: another statement has added some of them at the same time. */
  readonly names: string | null;
}

const mayHave = (row: string, asked: string) =>
  `${row}.lease_id <> ${asked}.asked_id AND NOT ${excludes(row)} AND NOT ${row}.paused`;

/** Grants what is free. Values: namespace, holder, ttlMs, metadata, resources, leaseIds. */
export const ACQUIRE_FREE = `
WITH clock AS MATERIALIZED (
    SELECT t.now, greatest((extract(epoch FROM t.now) * 1000000)::bigint, (
      SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = $1::text
    )) AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  seen AS MATERIALIZED (
    SELECT i.*, s.*
    FROM ${requests(5)} CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT l.ctid AS at, ${mayHave("l", "i")} AND NOT ${hasWaiter("l")} AS is_free
      FROM leasehold.lease l WHERE ${ROW_OF} OFFSET 0
    ) s ON true
  ),
  locked AS MATERIALIZED (
    SELECT s.n, s.asked_id, s.at, k.token
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.token FROM leasehold.lease l
      WHERE l.ctid = s.at AND ${mayHave("l", "s")}
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE s.is_free
  ),
  granted AS (
    UPDATE leasehold.lease l SET
      lease_id = k.asked_id, holder = $2::text, metadata = $4::text, ttl_ms = $3::int,
      token = greatest(k.token + 1, c.token),
      granted_at = c.now, renewed_at = NULL, expires_at = ${afterMs("$3::int")}, ended = NULL
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.n, l.token
  ),
  created AS (
    INSERT INTO leasehold.lease AS l
      (namespace, resource, lease_id, holder, metadata, ttl_ms, token, granted_at, expires_at)
    SELECT $1::text, s.resource, s.asked_id, $2::text, $4::text, $3::int, c.token, c.now,
      ${afterMs("$3::int")}
    FROM seen s CROSS JOIN clock c
    WHERE s.at IS NULL AND (SELECT count(*) FROM granted) >= 0
    ON CONFLICT (namespace, resource) DO NOTHING
    RETURNING l.resource, l.token
  ),
  above AS MATERIALIZED (
    SELECT leasehold.above_floor($1::text, min(x.token)) FROM created x HAVING count(*) > 0
  ),
  counted AS MATERIALIZED (
    SELECT (SELECT count(*) FROM created) = (SELECT count(*) FROM seen s WHERE s.at IS NULL) AS is_all
    WHERE (SELECT count(*) FROM above) >= 0
  )
SELECT c.token, ${epochMs("c.now")} AS now,
  ${listed("CASE WHEN g.token = c.token THEN g.n::text ELSE g.n || ':' || g.token END", "granted g")} AS granted,
  CASE WHEN t.is_all THEN ${listed("s.n::text", "seen s WHERE s.at IS NULL")} END AS created,
  CASE WHEN NOT t.is_all THEN (SELECT json_agg(x.resource)::text FROM created x) END AS names
FROM clock c CROSS JOIN counted t`;

const locked = (at: number, condition: string) => `locked AS MATERIALIZED (
    SELECT i.n, k.*
    FROM ${requests(at)} CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.expires_at FROM leasehold.lease l
      WHERE ${ROW_OF} AND l.lease_id = i.asked_id AND ${condition}
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  )`;
const NOW = "clock AS MATERIALIZED (SELECT clock_timestamp() AS now)";

export interface LiveRow {
  readonly now: number;
  /** `number:token`, and `number:token:remainingMs` where that is more than was asked for. */
  readonly renewed: string | null;
}

/** Renews live grants. Values: namespace, ttlMs, resources, leaseIds. */
export const RENEW_LIVE = `
WITH ${NOW},
  ${locked(3, isLive("l"))},
  renewed AS (
    UPDATE leasehold.lease l SET ttl_ms = $2::int, renewed_at = c.now,
      expires_at = greatest(k.expires_at, ${afterMs("$2::int")})
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.n, l.token, k.expires_at
  )
SELECT ${epochMs("c.now")} AS now, ${listed(
  `x.n || ':' || x.token || CASE WHEN x.expires_at > ${afterMs("$2::int")}
    THEN ':' || ${untilMs("x.expires_at")} ELSE '' END`,
  "renewed x",
)} AS renewed
FROM clock c`;

export interface ReleasedRow {
  readonly released: string | null;
}

/** Releases grants that no caller waits for. Values: namespace, resources, leaseIds. */
export const RELEASE_HELD = `
WITH ${NOW},
  ${locked(2, `${excludes("l")} AND NOT ${hasWaiter("l")}`)},
  released AS (
    UPDATE leasehold.lease l SET ended = 'released', expires_at = c.now
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.n
  )
SELECT ${listed("x.n::text", "released x")} AS released`;

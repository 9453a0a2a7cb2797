/**
 * The statements for the common case: requests on resources that are free or held by the caller, without waiters; those where
 * callers wait are in lease-queue-statements.ts. Each returns one row, which lists the requests that it granted or renewed by
 * their numbers. What is missing there, the rules decide:
 *
 *   batch ─▶ lean statement ─▶ granted, renewed
 *               ├─ acquires of what is not free: loaded by the same statement ─▶ rules ─▶ held, or granted again
 *               └─ the rest ─▶ load ─▶ rules ─▶ save
 *
 * There are two of each: for requests that differ in their resources and lease ids alone, as those of one client, and for
 * mixed ones, as a server has from its clients. The second takes an array of each value.
 *
 * - No statement waits for a row lock: SKIP LOCKED. Locked rows are addressed by their physical position (ctid): a row version
 *   newer than the statement's snapshot is not found there, and is left undecided.
 * - New rows are inserted in the order of their keys, after the locks: two batches wait for each other's new rows in one order.
 * - Time is clock_timestamp(), read once per statement. Not now(), which is when the transaction began. A lock is granted at once
 *   or not at all, so the time is fresh when it is used.
 * - Tokens are computed from the locked row: larger than the last one and all collected ones, and at least the clock in
 *   microseconds. So they keep growing if a table is lost and recreated. The token floor is read once, where all requests have
 *   one namespace.
 * - Data-modifying parts run in the order of their references, hence the `(SELECT count(*) ...) >= 0`.
 * - They never wake, pass over or add waiters: a resource with a waiter is left to the rules.
 *
 * Names: c the clock, i a request, s a request with the row as seen, k as locked, x and g as changed. Columns of the request are
 * called asked_..., those of the row have the row's names.
 */
import type { LeaseRecord, LeaseState } from "../../lease/index.js";
import {
  AWAITED_CLOCK,
  epochMs,
  excludes,
  IS_AWAITED,
  isLive,
  KEY,
  microsOf,
  untilMs,
} from "./lease-rows.js";
import { afterMs, type Columns, grantId, SAME_KEY, unnested } from "./sql-parts.js";

/** Where the values of a request are: the same ones for all, or a column of its row `i`, `s` or `k`. */
interface Values {
  /** The requests in the order of their keys. */
  readonly requests: string;
  readonly namespace: (row: string) => string;
  readonly ttlMs: (row: string) => string;
  readonly isRowOf: string;
}

const inOrder = (rows: string, order: string) => `(
      SELECT * FROM ${rows}
      ORDER BY ${order}
    ) i`;

/** @param at the number of the first of two values, the resources and the lease ids */
const alike = (at: number, ttlMs: string): Values => ({
  requests: inOrder(
    `unnest((SELECT $${at}::text[]), (SELECT $${at + 1}::text[]))
        WITH ORDINALITY AS i (resource, asked_id, n)`,
    'i.resource COLLATE "C"',
  ),
  namespace: () => "$1::text",
  ttlMs: () => ttlMs,
  isRowOf: "l.namespace = $1 AND l.resource = i.resource",
});

/** @param more the columns beside the key and the lease id */
const mixed = (more: Columns): Values => ({
  requests: inOrder(
    unnested([...KEY, ["asked_id", "text"], ...more]),
    'i.namespace COLLATE "C", i.resource COLLATE "C"',
  ),
  namespace: (row) => `${row}.namespace`,
  ttlMs: (row) => `${row}.asked_ms`,
  isRowOf: SAME_KEY("l", "i"),
});

const ASKED_MS: Columns = [["asked_ms", "int"]];
const hasWaiter = (row: string, namespace: string) => `(c.is_awaited AND EXISTS (
        SELECT FROM leasehold.waiter w
        WHERE w.namespace = ${namespace} AND w.resource = ${row}.resource AND w.expires_at > c.now
      ))`;
/** Numbers as text, which costs client and server less than a row for each. */
const listed = (text: string, from: string) => `(SELECT string_agg(${text}, ',') FROM ${from})`;

export interface FreeRow {
  /** The token of a new row, and of most others. */
  readonly token: number;
  readonly now: number;
  /** The numbers of granted requests; with a token of their own: `number:token`. */
  readonly granted: string | null;
  /** The same of the requests whose rows are new, if all that were missing could be added. */
  readonly created: string | null;
  /**
   * A JSON array of their namespaces, resources and tokens otherwise: another statement has added some of them at the
   * same time.
   */
  readonly names: string | null;
  /** A JSON array of {@link ReplacedGrant}, if the request is for those. */
  readonly replaced?: string | null;
  /** A JSON array of {@link LeftRow}: what is not free. */
  readonly rest: string | null;
}

/** What the rules need of a row to refuse a request, or to grant it again. */
export type LeftRow = readonly [
  n: number,
  isAwaited: boolean,
  version: string,
  leaseId: string,
  holder: string,
  token: number,
  ttlMs: number,
  grantedAt: number,
  renewedAt: number | null,
  expiresAt: number,
  ended: LeaseRecord["ended"],
  metadata: string | null,
  paused: boolean,
];

/** What a granted request has replaced, as in `AcquireRow`. Times are milliseconds since the epoch. */
export type ReplacedGrant = readonly [
  n: number,
  holder: string,
  grantId: string,
  token: number,
  ttlMs: number,
  state: LeaseState,
  grantedAt: number,
  renewedAt: number | null,
  expiresAt: number,
  metadata: string | null,
];

const mayHave = (row: string, asked: string) =>
  `${row}.lease_id <> ${asked}.asked_id AND NOT ${excludes(row)} AND NOT ${row}.paused`;
const withToken = (n: string, token: string) =>
  `CASE WHEN ${token} = c.token THEN ${n}::text ELSE ${n} || ':' || ${token} END`;

interface Acquiring extends Values {
  readonly clock: string;
  /** The token of the request of a new row, and the least one of the request of a locked row. */
  readonly token: string;
  readonly leastToken: string;
  readonly holder: (row: string) => string;
  readonly metadata: (row: string) => string;
  /** More columns of a request, of a locked row and of the result. */
  readonly seen: string;
  readonly asked: string;
  readonly row: string;
  readonly result: string;
}

const acquireFree = ({ requests, isRowOf, ...asks }: Acquiring) => `
WITH ${asks.clock},
  seen AS MATERIALIZED (
    SELECT i.*, ${asks.seen}s.*
    FROM ${requests} CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT l.ctid AS at, ${mayHave("l", "i")} AND NOT ${hasWaiter("l", asks.namespace("l"))} AS is_free
      FROM leasehold.lease l WHERE ${isRowOf} OFFSET 0
    ) s ON true
  ),
  locked AS MATERIALIZED (
    SELECT s.n, s.asked_id, ${asks.asked}s.at, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT ${asks.row}l.token FROM leasehold.lease l
      WHERE l.ctid = s.at AND ${mayHave("l", "s")}
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE s.is_free
  ),
  granted AS (
    UPDATE leasehold.lease l SET
      lease_id = k.asked_id, holder = ${asks.holder("k")}, metadata = ${asks.metadata("k")}, ttl_ms = ${asks.ttlMs("k")},
      token = greatest(k.token + 1, ${asks.leastToken}),
      granted_at = c.now, renewed_at = NULL, expires_at = ${afterMs(asks.ttlMs("k"))}, ended = NULL
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.*, l.token AS new_token
  ),
  created AS (
    INSERT INTO leasehold.lease AS l
      (namespace, resource, lease_id, holder, metadata, ttl_ms, token, granted_at, expires_at)
    SELECT ${asks.namespace("s")}, s.resource, s.asked_id, ${asks.holder("s")}, ${asks.metadata("s")}, ${asks.ttlMs("s")},
      ${asks.token}, c.now, ${afterMs(asks.ttlMs("s"))}
    FROM seen s CROSS JOIN clock c
    WHERE s.at IS NULL AND (SELECT count(*) FROM granted) >= 0
    ON CONFLICT (namespace, resource) DO NOTHING
    RETURNING l.namespace, l.resource, l.token
  ),
  above AS MATERIALIZED (
    SELECT leasehold.above_floor(x.namespace, min(x.token)) FROM created x GROUP BY x.namespace
  ),
  counted AS MATERIALIZED (
    SELECT (SELECT count(*) FROM created) = (SELECT count(*) FROM seen s WHERE s.at IS NULL) AS is_all
    WHERE (SELECT count(*) FROM above) >= 0
  )
SELECT c.token, ${epochMs("c.now")} AS now,
  ${listed(withToken("g.n", "g.new_token"), "granted g")} AS granted,
  CASE WHEN t.is_all THEN ${listed(withToken("s.n", asks.token), "seen s WHERE s.at IS NULL")} END AS created,
  CASE WHEN NOT t.is_all THEN
    (SELECT json_agg(json_build_array(x.namespace, x.resource, x.token))::text FROM created x)
  END AS names, (
    SELECT json_agg(json_build_array(s.n, c.is_awaited, l.xmin::text, l.lease_id, l.holder, l.token, l.ttl_ms,
      ${microsOf("l.granted_at")}, ${microsOf("l.renewed_at")}, ${microsOf("l.expires_at")}, l.ended, l.metadata, l.paused))::text
    FROM seen s JOIN leasehold.lease l ON l.ctid = s.at WHERE NOT s.is_free
  ) AS rest${asks.result}
FROM clock c CROSS JOIN counted t`;

/** Grants what is free. Values: namespace, holder, ttlMs, metadata, resources, leaseIds. */
export const ACQUIRE_FREE = acquireFree({
  ...alike(5, "$3::int"),
  clock: `clock AS MATERIALIZED (
    SELECT t.now, greatest((extract(epoch FROM t.now) * 1000000)::bigint, (
      SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = $1::text
    )) AS token, ${IS_AWAITED}
    FROM (SELECT clock_timestamp() AS now) t
  )`,
  token: "c.token",
  leastToken: "c.token",
  holder: () => "$2::text",
  metadata: () => "$4::text",
  seen: "",
  asked: "",
  row: "",
  result: "",
});

/**
 * The same for mixed requests. Values: namespaces, resources, leaseIds, holders, ttlMs, metadata; whether to return what
 * was replaced.
 */
export const ACQUIRE_FREE_MIXED = acquireFree({
  ...mixed([["asked_by", "text"], ...ASKED_MS, ["asked_metadata", "text"]]),
  clock: AWAITED_CLOCK,
  token: "s.new_token",
  leastToken: "k.least_token",
  holder: (row) => `${row}.asked_by`,
  metadata: (row) => `${row}.asked_metadata`,
  seen: `greatest(c.token, (
        SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = i.namespace
      )) AS new_token, `,
  asked: "s.new_token AS least_token, s.asked_by, s.asked_ms, s.asked_metadata, ",
  row: `l.holder, l.lease_id, l.ttl_ms, coalesce(l.ended, 'expired') AS state, l.granted_at, l.renewed_at,
        l.expires_at, l.metadata, `,
  result: `,
  CASE WHEN $7::bool THEN (
    SELECT json_agg(json_build_array(g.n, g.holder, ${grantId("g")}, g.token, g.ttl_ms, g.state,
      ${epochMs("g.granted_at")}, ${epochMs("g.renewed_at")}, ${epochMs("g.expires_at")}, g.metadata))::text
    FROM granted g
  ) END AS replaced`,
});

const locked = (
  { requests, isRowOf }: Values,
  condition: string,
  asked = "",
) => `locked AS MATERIALIZED (
    SELECT i.n, ${asked}k.*
    FROM ${requests} CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.expires_at FROM leasehold.lease l
      WHERE ${isRowOf} AND l.lease_id = i.asked_id AND ${condition}
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  )`;
const NOW = "clock AS MATERIALIZED (SELECT clock_timestamp() AS now)";

export interface LiveRow {
  readonly now: number;
  /** `number:token`, and `number:token:remainingMs` where that is more than was asked for. */
  readonly renewed: string | null;
}

const renewLive = (values: Values, asked = "") => `
WITH ${NOW},
  ${locked(values, isLive("l"), asked)},
  renewed AS (
    UPDATE leasehold.lease l SET ttl_ms = ${values.ttlMs("k")}, renewed_at = c.now,
      expires_at = greatest(k.expires_at, ${afterMs(values.ttlMs("k"))})
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING ${asked === "" ? "k.n, k.expires_at" : "k.*"}, l.token
  )
SELECT ${epochMs("c.now")} AS now, ${listed(
  `x.n || ':' || x.token || CASE WHEN x.expires_at > ${afterMs(values.ttlMs("x"))}
    THEN ':' || ${untilMs("x.expires_at")} ELSE '' END`,
  "renewed x",
)} AS renewed
FROM clock c`;

/** Renews live grants. Values: namespace, ttlMs, resources, leaseIds. */
export const RENEW_LIVE = renewLive(alike(3, "$2::int"));
/** The same for mixed requests. Values: namespaces, resources, leaseIds, ttlMs. */
export const RENEW_LIVE_MIXED = renewLive(mixed(ASKED_MS), "i.asked_ms, ");

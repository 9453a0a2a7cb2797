/**
 * Ended grants in PostgreSQL. Rows are only inserted and deleted, both in key order. So transactions
 * that insert the same rows wait for each other in that order and cannot deadlock.
 */
import type { GrantHistory, GrantHistoryQuery } from "../../control/index.js";
import { InvalidOptionError, type Key, type LeaseView, type Page } from "../../lease/index.js";
import type { Parameter, Sql } from "./connection.js";
import type { Connections } from "./shared.js";

/** The number of rows that one statement deletes at most. */
const COLLECTED_AT_ONCE = 1_000;

/** Values: one array per column, times as text. */
const APPEND = `
INSERT INTO leasehold.grant_history (namespace, resource, grant_id, holder, token, state, ttl_ms,
  granted_at, renewed_at, expires_at, metadata, recorded_at)
SELECT i.namespace, i.resource, i.grant_id, i.holder, i.token, i.state, i.ttl_ms,
  i.granted_at::timestamptz, i.renewed_at::timestamptz, i.expires_at::timestamptz, i.metadata,
  clock_timestamp()
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::float8[], $6::text[],
  $7::float8[], $8::text[], $9::text[], $10::text[], $11::text[])
  AS i (namespace, resource, grant_id, holder, token, state, ttl_ms, granted_at, renewed_at,
    expires_at, metadata)
ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C", i.grant_id COLLATE "C"
ON CONFLICT (namespace, resource, grant_id) DO NOTHING`;

const iso = (time: string) =>
  `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const COLUMNS = `h.namespace, h.resource, h.holder, h.grant_id AS "grantId", h.token, h.state,
  h.ttl_ms AS "ttlMs", ${iso("h.granted_at")} AS "grantedAt", ${iso("h.renewed_at")} AS "renewedAt",
  ${iso("h.expires_at")} AS "expiresAt", h.metadata`;

type Row = Omit<LeaseView, "remainingMs">;

/** Values: namespace, resource, grantId. */
const FIND = `
SELECT ${COLUMNS} FROM leasehold.grant_history h
WHERE h.namespace = $1 AND h.resource = $2 AND h.grant_id = $3`;

/** The expiry records when the grant ended, whatever ended it. Values: olderThanMs, limit. */
const COLLECT = `
WITH old AS MATERIALIZED (
  SELECT h.namespace, h.resource, h.grant_id FROM leasehold.grant_history h
  WHERE coalesce(h.expires_at, h.recorded_at) <= now() - $1::float8 * interval '1 millisecond'
  ORDER BY coalesce(h.expires_at, h.recorded_at)
  LIMIT $2::int
  FOR UPDATE SKIP LOCKED
)
DELETE FROM leasehold.grant_history h USING old o
WHERE h.namespace = o.namespace AND h.resource = o.resource AND h.grant_id = o.grant_id
RETURNING 1`;

export class PostgresGrantHistory implements GrantHistory {
  readonly #sql: Sql;

  constructor({ backend }: Connections) {
    this.#sql = backend.general;
  }

  async append(grants: readonly LeaseView[]): Promise<void> {
    const column = <T>(of: (grant: LeaseView) => T) => grants.map(of);
    await this.#sql.query(APPEND, [
      column(({ namespace }) => namespace),
      column(({ resource }) => resource),
      column(({ grantId }) => grantId),
      column(({ holder }) => holder),
      column(({ token }) => token),
      column(({ state }) => state),
      column(({ ttlMs }) => ttlMs),
      column(({ grantedAt }) => grantedAt),
      column(({ renewedAt }) => renewedAt),
      column(({ expiresAt }) => expiresAt),
      column(({ metadata }) => metadata),
    ]);
  }

  async list(query: GrantHistoryQuery): Promise<Page<LeaseView>> {
    const { limit = 100 } = query;
    const rows = await this.#sql.query<Row & { id: number }>(...listSql(query, limit + 1));
    const items = rows.slice(0, limit).map(({ id, ...row }) => view(row));
    const last = rows[limit - 1];
    return { items, nextCursor: last && rows.length > limit ? `${last.token}.${last.id}` : null };
  }

  async find({ namespace, resource }: Key, grantId: string): Promise<LeaseView | null> {
    const [row] = await this.#sql.query<Row>(FIND, [namespace, resource, grantId]);
    return row ? view(row) : null;
  }

  async collect(olderThanMs: number): Promise<number> {
    for (let collected = 0; ; ) {
      const { length } = await this.#sql.query(COLLECT, [olderThanMs, COLLECTED_AT_ONCE]);
      collected += length;
      if (length < COLLECTED_AT_ONCE) return collected;
    }
  }
}

/** Contains only the conditions of the query, so that each can use its index. */
function listSql(query: GrantHistoryQuery, limit: number): [text: string, values: Parameter[]] {
  const values: Parameter[] = [query.namespace];
  const conditions = ["h.namespace = $1"];
  const add = (condition: (value: string) => string, value: Parameter) => {
    values.push(value);
    conditions.push(condition(`$${values.length}`));
  };
  if (query.resource !== undefined) add((value) => `h.resource = ${value}`, query.resource);
  if (query.states) add((value) => `h.state = ANY (${value}::text[])`, query.states);
  if (query.cursor !== undefined) {
    const [, token, id] = /^(\d{1,16})\.(\d{1,18})$/.exec(query.cursor) ?? [];
    if (token === undefined || id === undefined) {
      throw new InvalidOptionError("cursor", "must come from a page of ended grants");
    }
    values.push(token, id);
    const [first, second] = [values.length - 1, values.length];
    conditions.push(`(h.token, h.id) < ($${first}::bigint, $${second}::bigint)`);
  }
  values.push(limit);
  const text = `
SELECT ${COLUMNS}, h.id FROM leasehold.grant_history h WHERE ${conditions.join(" AND ")}
ORDER BY h.token DESC, h.id DESC LIMIT $${values.length}::int`;
  return [text, values];
}

function view(row: Row): LeaseView {
  return { ...row, remainingMs: 0 };
}

/**
 * API keys in PostgreSQL. Adding a key takes an advisory lock of the tenant, so that concurrent
 * additions respect the limit. All other decisions use the locked row of a key: a concurrent rotation
 * and revocation see each other's changes.
 */
import {
  type ApiKey,
  type ApiKeyActs,
  type ApiKeyQuery,
  type ApiKeyRecord,
  type ApiKeyStore,
  MOST_KEYS,
  type NewApiKey,
  NOTE_USED_EVERY_MS,
  type Role,
  unknownApiKeyCursor,
} from "../../control/index.js";
import { invariant } from "../../env/index.js";
import type { Parameter, Session, Sql } from "./connection.js";

export const iso = (time: string) =>
  `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const afterMs = (time: string, value: string) =>
  `${time} + ${value}::float8 * interval '1 millisecond'`;
const good = (row: string) =>
  `(${row}.expires_at IS NULL OR ${row}.expires_at > clock_timestamp())`;
const ms = (interval: string) => `date_part('epoch', ${interval}) * 1000`;

const COLUMNS = `k.id, k.namespace, k.name, k.role, k.prefixes, k.queues, k.revoked,
  ${iso("k.created_at")} AS "createdAt", ${iso("k.expires_at")} AS "expiresAt",
  ${iso("k.last_used_at")} AS "lastUsedAt",
  greatest(0, ceil(${ms("k.expires_at - clock_timestamp()")})) AS left_ms`;

type Row = Omit<ApiKey, "role" | "prefixes" | "queues" | "remainingMs"> & {
  readonly role: Role | typeof LIMITED_OPERATOR;
  /** JSON. */
  readonly prefixes: string;
  /** JSON. */
  readonly queues: string;
  readonly left_ms: number;
};

interface Lockable extends Row {
  readonly good: boolean;
  readonly lifetime_ms: number | null;
  /** Null unless the key was rotated before. */
  readonly successor: string | null;
}

const FIND = `SELECT ${COLUMNS}, k.digest FROM leasehold.api_key k WHERE k.id = $1`;
const ANY = `SELECT EXISTS (SELECT FROM leasehold.api_key k WHERE ${good("k")}) AS any`;
/** Collected keys are still in the audit, which only grows. The index audit_first_key serves its part. */
const EXISTED = `SELECT EXISTS (SELECT FROM leasehold.api_key)
  OR EXISTS (SELECT FROM leasehold.audit a WHERE a.action = 'key.create') AS existed`;
/** Holds the lock until the transaction ends. Values: namespace. */
const LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('leasehold keys of ' || $1, 0))";
/**
 * The role of an operator with prefixes or queues. Servers of the release before would let an operator act on everything, and
 * give a role that they do not know no rights.
 */
const LIMITED_OPERATOR = "limitedOperator";

/** Values: id, namespace, name, role, prefixes, digest, lifetimeMs, maximum number of keys, queues. */
const ADD = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
INSERT INTO leasehold.api_key AS k
  (id, namespace, name, role, prefixes, digest, created_at, expires_at, queues)
SELECT $1, $2, $3, $4, $5, $6, c.now, ${afterMs("c.now", "$7")}, $9 FROM clock c
WHERE $8::int > (SELECT count(*) FROM leasehold.api_key o WHERE o.namespace = $2 AND ${good("o")})
RETURNING ${COLUMNS}`;
/** Values: namespace, id. The audit log knows the successor: a rotation and its entry are one transaction. */
const LOCKED = `
SELECT ${COLUMNS}, ${good("k")} AS good, ${ms("k.expires_at - k.created_at")} AS lifetime_ms,
  (SELECT max(a.details::json ->> 'successor') FROM leasehold.audit a
   WHERE a.namespace = k.namespace AND a.target = k.id AND a.action = 'key.rotate') AS successor
FROM leasehold.api_key k
WHERE k.namespace = $1 AND k.id = $2 FOR UPDATE`;
/** Values: namespace, id, inMs. */
const END = `
UPDATE leasehold.api_key k
SET expires_at = least(k.expires_at, ${afterMs("clock_timestamp()", "$3")}),
  revoked = k.revoked OR ($3::float8 = 0 AND ${good("k")})
WHERE k.namespace = $1 AND k.id = $2
RETURNING ${COLUMNS}`;

/**
 * Values: ids, the time after which a use is noted again. Locks no row that another statement has: that key is noted a
 * minute later.
 */
const NOTE_USED = `
WITH used AS MATERIALIZED (
  SELECT k.id FROM leasehold.api_key k
  WHERE k.id IN (SELECT jsonb_array_elements_text($1::jsonb))
    AND (k.last_used_at IS NULL OR k.last_used_at <= ${afterMs("clock_timestamp()", "-$2")})
  FOR UPDATE SKIP LOCKED
)
UPDATE leasehold.api_key k SET last_used_at = clock_timestamp() FROM used u WHERE k.id = u.id`;

/** The number of rows that one statement deletes at most. */
const COLLECTED_AT_ONCE = 1_000;
/** Values: olderThanMs, limit. */
const COLLECT = `
WITH old AS MATERIALIZED (
  SELECT k.id FROM leasehold.api_key k WHERE k.expires_at <= ${afterMs("now()", "-$1")}
  LIMIT $2::int FOR UPDATE SKIP LOCKED
)
DELETE FROM leasehold.api_key k USING old o WHERE k.id = o.id RETURNING 1`;

export function keysIn(sql: Sql): ApiKeyStore & ApiKeyActs {
  return {
    async find(id): Promise<ApiKeyRecord | null> {
      const [row] = await sql.query<Row & { digest: string }>(FIND, [id]);
      return row ? { ...keyOf(row), digest: row.digest } : null;
    },
    async list(query) {
      const { limit = 100 } = query;
      const rows = await sql.query<Row & { micros: number }>(...listSql(query, limit + 1));
      const last = rows[limit - 1];
      const nextCursor = last && rows.length > limit ? `${last.micros}.${last.id}` : null;
      return { items: rows.slice(0, limit).map(keyOf), nextCursor };
    },
    async any() {
      const [row] = await sql.query<{ any: boolean }>(ANY);
      return row?.any ?? false;
    },
    async existed() {
      const [row] = await sql.query<{ existed: boolean }>(EXISTED);
      return row?.existed ?? false;
    },
    async noteUsed(ids) {
      if (ids.length > 0) await sql.query(NOTE_USED, [JSON.stringify(ids), NOTE_USED_EVERY_MS]);
    },
    async collect(olderThanMs) {
      for (let collected = 0; ; ) {
        const { length } = await sql.query(COLLECT, [olderThanMs, COLLECTED_AT_ONCE]);
        collected += length;
        if (length < COLLECTED_AT_ONCE) return collected;
      }
    },
    add: (key) => sql.transaction((session) => add(session, key, MOST_KEYS)),
    rotate: ({ namespace, id, overlapMs, successor }) =>
      sql.transaction(async (session) => {
        // Locks in the same order as additions: the tenant's keys, then one key.
        await session.query(LOCK, [namespace]);
        const values = [namespace, id];
        const [row] = await session.query<Lockable>(LOCKED, values);
        if (row && row.successor !== null) {
          return { status: "rotatedBefore", successor: row.successor };
        }
        if (!row?.good) return { status: "notGood" };
        const { name, role, prefixes, queues } = keyOf(row);
        const order = { namespace, name, role, prefixes, queues, lifetimeMs: row.lifetime_ms };
        // A key that ends now makes room for its successor.
        const most = overlapMs === 0 ? MOST_KEYS + 1 : MOST_KEYS;
        const key = await add(session, { ...order, ...successor }, most);
        if (!key) return { status: "full" };
        const old = await end(session, namespace, id, overlapMs);
        invariant(old !== null, "a row that is locked stays");
        return { status: "rotated", key, old };
      }),
    revoke: (namespace, id) => end(sql, namespace, id, 0),
  };
}

async function add(session: Session, key: NewApiKey, most: number): Promise<ApiKey | null> {
  const { id, namespace, name, prefixes, queues = [], digest, lifetimeMs } = key;
  const isLimited = key.role === "operator" && prefixes.length + queues.length > 0;
  const role = isLimited ? LIMITED_OPERATOR : key.role;
  await session.query(LOCK, [namespace]);
  const columns = [id, namespace, name, role, JSON.stringify(prefixes), digest, lifetimeMs];
  const [row] = await session.query<Row>(ADD, [...columns, most, JSON.stringify(queues)]);
  return row ? keyOf(row) : null;
}

async function end(
  sql: Pick<Sql, "query">,
  namespace: string,
  id: string,
  inMs: number,
): Promise<ApiKey | null> {
  const [row] = await sql.query<Row>(END, [namespace, id, inMs]);
  return row ? keyOf(row) : null;
}

/** Contains only the conditions of the query, so that each can use its index. */
function listSql({ namespace, cursor }: ApiKeyQuery, limit: number): [string, Parameter[]] {
  const values: Parameter[] = [limit];
  const conditions = ["true"];
  if (namespace !== null) conditions.push(`k.namespace = $${values.push(namespace)}`);
  if (cursor !== undefined) {
    const [, micros, id] = /^(\d{1,16})\.([0-9a-f]{12})$/.exec(cursor) ?? [];
    if (micros === undefined || id === undefined) unknownApiKeyCursor();
    const time = `timestamptz 'epoch' + $${values.push(micros)}::bigint * interval '1 microsecond'`;
    conditions.push(`(k.created_at, k.id) < (${time}, $${values.push(id)})`);
  }
  const text = `
SELECT ${COLUMNS}, round(date_part('epoch', k.created_at) * 1000000)::bigint AS micros
FROM leasehold.api_key k WHERE ${conditions.join(" AND ")}
ORDER BY k.created_at DESC, k.id DESC LIMIT $1::int`;
  return [text, values];
}

function keyOf(row: Row): ApiKey {
  const { id, namespace, name, createdAt, expiresAt, lastUsedAt, revoked } = row;
  return {
    id,
    namespace,
    name,
    role: row.role === LIMITED_OPERATOR ? "operator" : row.role,
    createdAt,
    expiresAt,
    lastUsedAt,
    revoked,
    prefixes: JSON.parse(row.prefixes) as string[],
    queues: JSON.parse(row.queues) as string[],
    remainingMs: expiresAt === null ? null : row.left_ms,
  };
}

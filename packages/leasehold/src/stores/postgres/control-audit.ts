/**
 * The audit in PostgreSQL. A row of its own stores the end of the chain. A transaction that appends
 * locks that row, which fixes one order, and then reads the clock, so that times follow the order. A
 * trigger rejects everything but INSERT, another lets that row only go forward; the hash chain reveals
 * changes that bypass them.
 */
import {
  type AuditEntry,
  type AuditLog,
  type AuditQuery,
  beforeSeq,
  type ChainEnd,
  chained,
  MissingEndError,
  type NewAuditEntry,
} from "../../control/index.js";
import type { Parameter, Session, Sql } from "./connection.js";

const LOCKED_HEAD = `
WITH head AS MATERIALIZED (SELECT h.seq, h.hash FROM leasehold.audit_head h FOR UPDATE)
SELECT h.seq, h.hash,
  to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at
FROM head h`;

/**
 * Limits how long an operator action waits for locks, and how long it may stand idle while it holds
 * them. Renewals fail on the rows that it has locked, and all other actions wait for the end of the
 * chain.
 */
const BOUNDED = `
SELECT set_config('lock_timeout', '2s', true),
  set_config('idle_in_transaction_session_timeout', '5s', true)`;

/** Values: one array per column, then the new end. */
const ADD = `
WITH added AS (
  INSERT INTO leasehold.audit
    (seq, at, namespace, actor, action, target, reason, phase, details, hash)
  SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
    $7::text[], $8::text[], $9::text[], $10::text[])
)
UPDATE leasehold.audit_head SET seq = $11::bigint, hash = $12`;

const COLUMNS =
  "a.seq, a.at, a.namespace, a.actor, a.action, a.target, a.reason, a.phase, a.details, a.hash";
/** Values: afterSeq, limit. */
const READ = `
SELECT ${COLUMNS} FROM leasehold.audit a WHERE a.seq > $1::bigint ORDER BY a.seq LIMIT $2::int`;
/** Where no entry fits, the only row has the number alone. */
interface ListedRow extends AuditEntry {
  /** The entry after which the next page begins; null: the page passed over all that are left. */
  readonly lastPassed: number | null;
}
const HEAD = "SELECT h.seq, h.hash FROM leasehold.audit_head h";

/** Entries that a page by actions looks at. Those of the store in memory have the same bound. */
const MOST_PASSED = 10_000;

/** Applies to the session's transaction, before an action takes locks. */
export async function boundWaits(session: Session): Promise<void> {
  await session.query(BOUNDED);
}

/** Appends entries in the session's transaction; concurrent appends wait until it ends. */
export async function addEntries(
  session: Session,
  entries: readonly NewAuditEntry[],
): Promise<readonly AuditEntry[]> {
  const [head] = await session.query<ChainEnd & { at: string }>(LOCKED_HEAD);
  if (!head) throw new MissingEndError();
  const { at, ...end } = head;
  let last: ChainEnd = end;
  const added = entries.map((entry) => {
    const next = chained(last, entry, at);
    last = next;
    return next;
  });
  const column = <T extends keyof AuditEntry>(name: T) => added.map((entry) => entry[name]);
  await session.query(ADD, [
    column("seq"),
    column("at"),
    column("namespace"),
    column("actor"),
    column("action"),
    column("target"),
    column("reason"),
    column("phase"),
    column("details"),
    column("hash"),
    last.seq,
    last.hash,
  ]);
  return added;
}

export function auditIn(sql: Sql): AuditLog {
  return {
    append: (entries) =>
      sql.transaction(async (session) => {
        await boundWaits(session);
        return addEntries(session, entries);
      }),
    async list(query) {
      const { limit = 100 } = query;
      const rows = await sql.query<ListedRow>(...listSql(query, limit + 1));
      const items = rows
        .filter(({ seq }) => seq !== null)
        .slice(0, limit)
        .map(({ lastPassed: _, ...entry }) => entry);
      const last = rows.length > limit ? items.at(-1)?.seq : rows[0]?.lastPassed;
      return { items, nextCursor: last ? String(last) : null };
    },
    read: (afterSeq, limit) => sql.query<AuditEntry>(READ, [afterSeq, limit]),
    async head() {
      const [head] = await sql.query<ChainEnd>(HEAD);
      if (!head) throw new MissingEndError();
      return head;
    },
  };
}

/**
 * Contains only the conditions of the query, so that each can use its index. Actions have none: one that is rare would
 * be searched for among all entries, so a page passes over a bounded number of them.
 */
function listSql(query: AuditQuery, limit: number): [text: string, values: Parameter[]] {
  const values: Parameter[] = [limit, query.actions ? MOST_PASSED : limit];
  const conditions: string[] = [];
  const add = (condition: (value: string) => string, value: Parameter | null | undefined) => {
    if (value === null || value === undefined) return;
    values.push(value);
    conditions.push(condition(`$${values.length}`));
  };
  add((value) => `a.namespace = ${value}`, query.namespace);
  add((value) => `a.target = ${value}`, query.target);
  add((value) => `a.seq < ${value}::bigint`, beforeSeq(query));
  const where = conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : "";
  if (query.actions) values.push(query.actions);
  const wanted = query.actions ? `WHERE p.action = ANY ($${values.length}::text[])` : "";
  const text = `
WITH passed AS MATERIALIZED (
  SELECT a.seq, a.action FROM leasehold.audit a ${where} ORDER BY a.seq DESC LIMIT $2::int
), wanted AS (SELECT p.seq FROM passed p ${wanted} ORDER BY p.seq DESC LIMIT $1::int)
SELECT p."lastPassed", ${COLUMNS}
FROM (SELECT CASE WHEN count(*) = $2 THEN min(seq) END AS "lastPassed" FROM passed) p
LEFT JOIN (wanted w JOIN leasehold.audit a ON a.seq = w.seq) ON true ORDER BY a.seq DESC`;
  return [text, values];
}

/**
 * Grants on tasks as leases: live ones from the tasks, ended ones from the attempts. Both come out of
 * an index in list order, read only as far as the page needs, and are merged.
 */
import type { LeaseState, LeaseView, Page } from "../../lease/index.js";
import {
  resultsOf,
  type TaskTerm,
  taskLease,
  taskLeaseCursor,
  taskLeasePosition,
} from "../../tasks/leases.js";
import type { TaskLeaseQuery } from "../../tasks/port.js";
import type { Parameter } from "./connection.js";
import { grantId } from "./sql-parts.js";
import { CLOCK, micros } from "./task-statements.js";
import { iso, isoOrNull } from "./task-views.js";

/** Times in microseconds. */
export interface LeaseRow
  extends Pick<TaskTerm, "holder" | "grantId" | "token" | "ttlMs" | "result"> {
  readonly id: string;
  readonly seq: number;
  readonly attempt: number;
  readonly startedAt: number;
  readonly heartbeatAt: number | null;
  readonly endedAt: number | null;
  /** Null after it has ended. */
  readonly expiresAt: number | null;
  readonly now: number;
}

const RUNNING = `t.id, t.seq, t.attempt, t.holder, ${grantId("t")} AS grant_id, t.token, t.ttl_ms,
    t.started_at, t.heartbeat_at, NULL::timestamptz AS ended_at, t.expires_at, NULL::text AS result`;
const ENDED = `a.task_id, a.task_seq, a.attempt, a.holder, a.grant_id, a.token, coalesce(a.ttl_ms, 0),
    a.started_at, a.heartbeat_at, a.ended_at, NULL::timestamptz, a.result`;

const ALL: readonly LeaseState[] = ["live", "expired", "released", "revoked"];

/**
 * Returns the statement and its values for `limit` grants, or null if no grant can match. The text
 * contains only the conditions of the query, as constants if an index has them too.
 * @throws InvalidOptionError for a cursor that no page returned
 */
export function leasesSql(
  { namespace, states = ALL, renewedOnly = false, cursor }: TaskLeaseQuery,
  limit: number,
): [text: string, values: Parameter[]] | null {
  const values: Parameter[] = [namespace, limit];
  const running = ["t.namespace = $1", "t.state = 'running'"];
  const ended = ["a.namespace = $1"];
  if (cursor !== undefined) {
    const { seq, attempt } = taskLeasePosition(cursor);
    values.push(seq, attempt);
    running.push("(t.seq, t.attempt) < ($3::bigint, $4::int)");
    ended.push("(a.task_seq, a.attempt) < ($3::bigint, $4::int)");
  }
  if (renewedOnly) {
    running.push("t.heartbeat_at IS NOT NULL");
    ended.push("a.heartbeat_at IS NOT NULL");
  }
  const [live, expired] = [states.includes("live"), states.includes("expired")];
  if (live !== expired) running.push(`t.expires_at ${live ? ">" : "<="} (SELECT now FROM clock)`);
  const results = resultsOf(states);
  // Excludes states rather than listing them, if most are wanted: without statistics the planner takes
  // IN for rare.
  const released = results.includes("done");
  const named = released ? resultsOf(ALL.filter((state) => !states.includes(state))) : results;
  if (named.length > 0) {
    const list = named.map((result) => `'${result}'`).join(", ");
    ended.push(`a.result ${released ? "NOT IN" : "IN"} (${list})`);
  }
  const parts: string[] = [];
  if (live || expired) {
    parts.push(`(SELECT ${RUNNING} FROM leasehold.task t
    WHERE ${running.join(" AND ")} ORDER BY t.seq DESC LIMIT $2::int)`);
  }
  if (results.length > 0) {
    parts.push(`(SELECT ${ENDED} FROM leasehold.attempt a
    WHERE ${ended.join(" AND ")} ORDER BY a.task_seq DESC, a.attempt DESC LIMIT $2::int)`);
  }
  if (parts.length === 0) return null;
  const text = `
WITH ${CLOCK},
  found (id, seq, attempt, holder, grant_id, token, ttl_ms, started_at, heartbeat_at, ended_at,
    expires_at, result) AS (${parts.join(" UNION ALL ")})
SELECT x.id, x.seq, x.attempt, x.holder, x.grant_id AS "grantId", x.token, x.ttl_ms AS "ttlMs",
  ${micros("x.started_at")} AS "startedAt", ${micros("x.heartbeat_at")} AS "heartbeatAt",
  ${micros("x.ended_at")} AS "endedAt", ${micros("x.expires_at")} AS "expiresAt", x.result,
  ${micros("c.now")} AS now
FROM found x CROSS JOIN clock c ORDER BY x.seq DESC, x.attempt DESC LIMIT $2::int`;
  return [text, values];
}

/**
 * @param rows one more than the page holds, if there is a next page
 */
export function leasePage(
  namespace: string,
  rows: readonly LeaseRow[],
  limit: number,
): Page<LeaseView> {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    items: page.map((row) => leaseOf(namespace, row)),
    nextCursor: last && rows.length > limit ? taskLeaseCursor(last) : null,
  };
}

function leaseOf(namespace: string, row: LeaseRow): LeaseView {
  const { id, seq: _, startedAt, heartbeatAt, endedAt, expiresAt, now, ...term } = row;
  const leftMs = expiresAt === null ? 0 : (expiresAt - now) / 1_000;
  return taskLease(
    { namespace, id },
    {
      ...term,
      startedAt: iso(startedAt),
      heartbeatAt: isoOrNull(heartbeatAt),
      endedAt: isoOrNull(endedAt),
      expiresAt: isoOrNull(expiresAt),
      remainingMs: Math.max(0, Math.ceil(leftMs)),
    },
  );
}

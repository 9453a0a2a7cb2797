/** Which concurrency keys keep tasks back, and by which tasks. */
import {
  type BlockedKey,
  type BlockedKeysQuery,
  COUNTED_OF_KEY,
  NAMED_OF_KEY,
} from "../../tasks/blocked-keys.js";
import { rateOf } from "./concurrency.js";
import type { Parameter } from "./connection.js";
import type { Run } from "./task-calls.js";
import { NUMBER, OF_KEY, RUNS, windowOf } from "./task-key-statements.js";
import { blockingOf } from "./task-limits.js";
import { CLOCK, CLOCK_NOW, micros } from "./task-statements.js";
import { isoOrNull } from "./task-views.js";

/** Of all keys, so many running and pending tasks are looked at: a reader must not read a backlog. */
const SCANNED = 20_000;

interface Row {
  readonly queue: string;
  readonly kind: string;
  readonly key: string;
  readonly perKey: number;
  readonly anyOrder: boolean;
  readonly rateLimit: number | null;
  readonly ratePerMs: number | null;
  readonly usedUpUntil: number | null;
  readonly pending: number;
  /** JSON of the tasks, with times in microseconds; null: none. */
  readonly by: string | null;
}

const KEYED = "t.namespace = $1 AND t.concurrency_key IS NOT NULL";
/** Keys with a running task, or a pending one that waits for its retry. */
const ALL = `
    SELECT t.namespace, t.queue, t.kind, t.concurrency_key AS key FROM (
      (SELECT t.* FROM leasehold.task t WHERE ${KEYED} AND ${RUNS} LIMIT ${SCANNED})
      UNION ALL
      (SELECT t.* FROM leasehold.task t WHERE ${KEYED} AND t.state = 'pending' LIMIT ${SCANNED})
    ) t
    WHERE t.state = 'running' OR (t.attempt > 0 AND t.scheduled_at > ${CLOCK_NOW})
    GROUP BY 1, 2, 3, 4
    UNION
    SELECT s.namespace, s.queue, s.kind, s.key FROM (
      SELECT s.* FROM leasehold.key_rate s WHERE s.namespace = $1 AND s.ends_at > ${CLOCK_NOW} LIMIT ${SCANNED}
    ) s`;
const ONE = "SELECT $1::text AS namespace, $3::text AS queue, $4::text AS kind, $5::text AS key";

/** Values: namespace, limit; of one key also queue, kind and key. */
const blockedKeysSql = (keys: string) => `
WITH ${CLOCK},
  keys AS MATERIALIZED (${keys})
SELECT k.queue, k.kind, k.key, n.most AS "perKey", n.any_order AS "anyOrder", n.rate AS "rateLimit", n.per_ms AS "ratePerMs",
  p.pending, coalesce(r.by, h.by)::text AS by,
  CASE WHEN w.current AND w.permits <= 0 THEN ${micros("w.ends_at")} END AS "usedUpUntil"
FROM keys k CROSS JOIN clock c
  CROSS JOIN LATERAL (
    SELECT t.concurrency_limit AS most, t.concurrency_any AS any_order, t.concurrency_rate AS rate,
      t.concurrency_rate_ms AS per_ms
    FROM leasehold.task t
    WHERE ${OF_KEY} AND t.state = 'pending' ORDER BY ${NUMBER} DESC LIMIT 1
  ) n
  LEFT JOIN leasehold.key_rate s
    ON s.namespace = k.namespace AND s.queue = k.queue AND s.kind = k.kind AND s.key = k.key
  CROSS JOIN LATERAL (${windowOf("s", "n.rate", "n.per_ms")}
  ) w
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS pending FROM (
      SELECT FROM leasehold.task t WHERE ${OF_KEY} AND t.state = 'pending' LIMIT ${COUNTED_OF_KEY}
    ) t
  ) p
  CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE c.now < t.expires_at) AS live,
      bool_or(c.now >= t.expires_at) AND NOT n.any_order AS stuck,
      json_agg(json_build_object('id', t.id, 'state', 'running', 'holder', t.holder,
        'until', ${micros("t.expires_at")}) ORDER BY t.seq) FILTER (WHERE t.place <= ${NAMED_OF_KEY}) AS by
    FROM (
      SELECT t.*, row_number() OVER (ORDER BY t.seq) AS place FROM leasehold.task t
      WHERE ${OF_KEY} AND ${RUNS}
    ) t
  ) r
  LEFT JOIN LATERAL (
    SELECT json_build_array(json_build_object('id', t.id, 'state', 'pending', 'holder', NULL,
      'until', ${micros("t.scheduled_at")})) AS by, t.scheduled_at
    FROM leasehold.task t
    WHERE NOT n.any_order AND ${OF_KEY} AND t.state = 'pending'
      AND (t.scheduled_at <= c.now OR t.attempt > 0)
    ORDER BY ${NUMBER} LIMIT 1
  ) h ON h.scheduled_at > c.now AND p.pending > 1
WHERE r.live >= n.most OR r.stuck OR h.by IS NOT NULL OR (w.current AND w.permits <= 0)
ORDER BY p.pending DESC, 1, 2, 3 LIMIT $2::int`;

const BLOCKED_KEYS = blockedKeysSql(ALL);
const BLOCKED_KEY = blockedKeysSql(ONE);

export async function blockedKeys(
  run: Run,
  { namespace, only, limit }: BlockedKeysQuery,
): Promise<BlockedKey[]> {
  const values: Parameter[] = [namespace, limit];
  if (only) values.push(only.queue, only.kind, only.key);
  const rows = await run<Row>(only ? BLOCKED_KEY : BLOCKED_KEYS, values);
  return rows.map(({ anyOrder, rateLimit, ratePerMs, by, usedUpUntil, ...row }) => {
    const rate = rateOf({ rateLimit, ratePerMs });
    return {
      ...row,
      order: anyOrder ? "any" : "fifo",
      ...(rate && { rate }),
      by: blockingOf(by ?? "[]"),
      usedUpUntil: isoOrNull(usedUpUntil),
    };
  });
}

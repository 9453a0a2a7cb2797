/**
 * The tables, and the statements on them. Times are whole milliseconds of the machine's clock.
 *
 *   leasehold_lease    for each resource its last grant
 *   leasehold_waiter   the wait queues: the head of a queue has its smallest place
 *   leasehold_floor    the largest token among collected records, by namespace
 *   leasehold_notice   waiters to wake, for a minute: how other processes learn of a release
 */
export const TABLES = `
CREATE TABLE IF NOT EXISTS leasehold_lease (
  namespace TEXT NOT NULL, resource TEXT NOT NULL, lease_id TEXT NOT NULL, holder TEXT NOT NULL, token INTEGER NOT NULL,
  ttl_ms INTEGER NOT NULL, granted_at INTEGER NOT NULL, renewed_at INTEGER, expires_at INTEGER NOT NULL, ended TEXT, metadata TEXT,
  PRIMARY KEY (namespace, resource)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leasehold_waiter (
  place INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, resource TEXT NOT NULL, lease_id TEXT NOT NULL,
  holder TEXT NOT NULL, expires_at INTEGER NOT NULL,
  UNIQUE (namespace, resource, lease_id)
);
CREATE INDEX IF NOT EXISTS leasehold_waiter_place ON leasehold_waiter (namespace, resource, place);
CREATE TABLE IF NOT EXISTS leasehold_floor (namespace TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leasehold_notice (
  id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, resource TEXT NOT NULL, wakes TEXT NOT NULL, at INTEGER NOT NULL
);`;

const RECORD = `lease_id AS leaseId, holder, token, ttl_ms AS ttlMs, granted_at AS grantedAtMs, renewed_at AS renewedAtMs,
  expires_at AS expiresAtMs, ended, metadata`;
const KEY = "namespace = ? AND resource = ?";
/** Values: the time twice, before which they have ended. */
const ENDED = "(ended = 'released' OR expires_at <= ?) AND expires_at < ?";

export const STATEMENTS = {
  begin: "BEGIN IMMEDIATE",
  commit: "COMMIT",
  rollback: "ROLLBACK",
  load: `SELECT ${RECORD} FROM leasehold_lease WHERE ${KEY}`,
  save: `INSERT INTO leasehold_lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (namespace, resource) DO UPDATE SET lease_id = excluded.lease_id, holder = excluded.holder, token = excluded.token,
    ttl_ms = excluded.ttl_ms, granted_at = excluded.granted_at, renewed_at = excluded.renewed_at,
    expires_at = excluded.expires_at, ended = excluded.ended, metadata = excluded.metadata`,
  floor: "SELECT token FROM leasehold_floor WHERE namespace = ?",
  anyWaiter: "SELECT 1 FROM leasehold_waiter LIMIT 1",
  waiters: `SELECT lease_id AS leaseId, holder FROM leasehold_waiter
    WHERE ${KEY} AND expires_at > ? ORDER BY place`,
  first: `SELECT lease_id AS leaseId, holder FROM leasehold_waiter WHERE ${KEY} AND expires_at > ? ORDER BY place LIMIT 1`,
  count: `SELECT count(*) AS n FROM leasehold_waiter WHERE ${KEY} AND expires_at > ?`,
  own: `SELECT place, expires_at AS expiresAtMs FROM leasehold_waiter WHERE ${KEY} AND lease_id = ? AND expires_at > ?`,
  ahead: `SELECT count(*) AS n FROM leasehold_waiter WHERE ${KEY} AND expires_at > ? AND place < ?`,
  // An expired waiter does not get its old place again.
  forget: `DELETE FROM leasehold_waiter WHERE ${KEY} AND lease_id = ? AND expires_at <= ?`,
  join: `INSERT INTO leasehold_waiter (namespace, resource, lease_id, holder, expires_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (namespace, resource, lease_id) DO UPDATE SET expires_at = max(expires_at, excluded.expires_at)`,
  serve: `DELETE FROM leasehold_waiter WHERE ${KEY}
    AND place <= (SELECT w.place FROM leasehold_waiter w WHERE w.namespace = ? AND w.resource = ? AND w.lease_id = ?)`,
  leave: `DELETE FROM leasehold_waiter WHERE ${KEY} AND lease_id = ?`,
  notify: "INSERT INTO leasehold_notice (namespace, resource, wakes, at) VALUES (?, ?, ?, ?)",
  forgetNotices: "DELETE FROM leasehold_notice WHERE at < ?",
  lastNotice: "SELECT coalesce(max(id), 0) AS id FROM leasehold_notice",
  notices: "SELECT id, namespace, resource, wakes FROM leasehold_notice WHERE id > ? ORDER BY id",
  version: "PRAGMA data_version",
  list: `SELECT resource, ${RECORD} FROM leasehold_lease
    WHERE namespace = ? AND resource > ? AND resource >= ? ORDER BY resource LIMIT ?`,
  raiseFloors: `INSERT INTO leasehold_floor SELECT namespace, max(token) FROM leasehold_lease WHERE ${ENDED} GROUP BY namespace
    ON CONFLICT (namespace) DO UPDATE SET token = max(token, excluded.token)`,
  collect: `DELETE FROM leasehold_lease WHERE ${ENDED}`,
  collectWaiters: "DELETE FROM leasehold_waiter WHERE expires_at <= ?",
} as const;

// The simplest implementation: each caller sends its own statement through a pool. It stores what a lease
// needs: a row with holder, token and expiry.
import { forEach } from "../../measure.js";
import { openPool } from "../pool.js";

const POOL = 10;
const TTL_MS = 60_000;
const TABLE = `CREATE TABLE naive_lease (resource text PRIMARY KEY, holder text NOT NULL,
  token bigint NOT NULL, expires_at timestamptz NOT NULL)`;
const ACQUIRE = `INSERT INTO naive_lease AS l (resource, holder, token, expires_at)
  VALUES ($1, $2, 1, now() + $3 * interval '1 millisecond')
  ON CONFLICT (resource) DO UPDATE SET holder = excluded.holder, token = l.token + 1,
    expires_at = excluded.expires_at
  WHERE l.expires_at <= now() RETURNING token`;
const RENEW = `UPDATE naive_lease SET expires_at = now() + $3 * interval '1 millisecond'
  WHERE resource = $1 AND holder = $2 AND expires_at > now() RETURNING token`;
const RELEASE = `UPDATE naive_lease SET expires_at = now() WHERE resource = $1 AND holder = $2
  AND expires_at > now() RETURNING token`;

/**
 * Each operation for one name, by a statement of its own.
 * @param {string} url
 * @param {number} size of the pool
 */
export async function openStatements(url, size = POOL) {
  const pool = openPool(url, size);
  await pool.query(TABLE);
  const run = async (
    /** @type {string} */ name,
    /** @type {string} */ text,
    /** @type {unknown[]} */ values,
  ) => {
    const { rowCount } = await pool.query({ name, text, values });
    if (rowCount !== 1) throw new Error(`${name} of ${values[0]}: ${rowCount} rows`);
  };
  return {
    acquire: (/** @type {string} */ name) => run("acquire", ACQUIRE, [name, "me", TTL_MS]),
    renew: (/** @type {string} */ name) => run("renew", RENEW, [name, "me", TTL_MS]),
    release: (/** @type {string} */ name) => run("release", RELEASE, [name, "me"]),
    close: () => pool.end(),
  };
}

/**
 * @param {string} url
 * @param {number} callers
 * @returns {Promise<import("./phases.js").LeaseContender>}
 */
export async function open(url, callers) {
  const statements = await openStatements(url);
  /** @type {readonly string[]} */
  let held = [];
  return {
    async acquire(names) {
      held = names;
      await forEach(callers, held, statements.acquire);
    },
    renew: () => forEach(callers, held, statements.renew),
    release: () => forEach(callers, held, statements.release),
    close: statements.close,
  };
}

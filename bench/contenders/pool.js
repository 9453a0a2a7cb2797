import pg from "pg";

/**
 * A pool whose idle connections may end with their server, at the end of a question.
 * @param {string} url
 * @param {number} max
 * @param {Omit<import("pg").PoolConfig, "connectionString" | "max">} [settings]
 */
export function openPool(url, max, settings = {}) {
  const pool = new pg.Pool({ ...settings, connectionString: url, max });
  pool.on("error", () => {});
  return pool;
}

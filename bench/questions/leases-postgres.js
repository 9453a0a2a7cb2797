// Leases per second on durable PostgreSQL: group commit beside one statement per call.
//
// ratio = our operations per second / those of the simplest implementation: each caller sends its own
// statement through a pool of the same size. Both store the same: a row with holder, token and expiry,
// with fsync and synchronous_commit on.

import { connect } from "leasehold";
import pg from "pg";
import { interleaved, perSecond, rateOf, ratioRow } from "../measure.js";

const CALLERS = 512;
const POOL = 10;
const TTL_MS = 60_000;

const NAIVE = {
  table: `CREATE TABLE naive_lease (resource text PRIMARY KEY, holder text NOT NULL,
    token bigint NOT NULL, expires_at timestamptz NOT NULL)`,
  acquire: `INSERT INTO naive_lease AS l (resource, holder, token, expires_at)
    VALUES ($1, $2, 1, now() + $3 * interval '1 millisecond')
    ON CONFLICT (resource) DO UPDATE SET holder = excluded.holder, token = l.token + 1,
      expires_at = excluded.expires_at
    WHERE l.expires_at <= now() RETURNING token`,
  renew: `UPDATE naive_lease SET expires_at = now() + $3 * interval '1 millisecond'
    WHERE resource = $1 AND holder = $2 AND expires_at > now() RETURNING token`,
  release: `UPDATE naive_lease SET expires_at = now() WHERE resource = $1 AND holder = $2
    AND expires_at > now() RETURNING token`,
};

/** @type {import("../measure.js").Question} */
export default {
  question: "Leases per second with 512 callers on PostgreSQL, fully durable",
  sideBySide: "one statement per call through a pool of the same size",
  ids: ["lease-acquire-postgres", "lease-renew-postgres", "lease-release-postgres"],
  async run({ engines, size, progress }) {
    const url = await engines.freshDatabase();
    const pool = new pg.Pool({ connectionString: url, max: POOL });
    await pool.query(NAIVE.table);
    const leases = await connect(url, { defaults: { ttlMs: TTL_MS, autoRenew: false } });
    const forMs = size(3_000, 700);
    /** @type {Record<"acquire" | "renew" | "release", { ours: number[], theirs: number[] }>} */
    const figures = { acquire: none(), renew: none(), release: none() };
    // A round acquires, renews and releases: it renews the leases that it has acquired.
    const sides = {
      async ours(/** @type {number} */ round) {
        /** @type {Map<number, import("leasehold").HeldLease[]>} */
        const held = new Map();
        const acquire = await rateOf(CALLERS, forMs, async (caller, turn) => {
          const lease = await leases.acquire(`ours-${round}-${caller}-${turn}`);
          const mine = held.get(caller);
          if (mine) mine.push(lease);
          else held.set(caller, [lease]);
        });
        const renew = await rateOf(CALLERS, forMs, async (caller, turn) => {
          const mine = held.get(caller) ?? [];
          await mine[turn % mine.length]?.renew();
        });
        const all = [...held.values()].flat();
        const release = await drain(all, (lease) => lease.release());
        return { acquire, renew, release };
      },
      async theirs(/** @type {number} */ round) {
        /** @type {Map<number, string[]>} */
        const held = new Map();
        const acquire = await rateOf(CALLERS, forMs, async (caller, turn) => {
          const resource = `theirs-${round}-${caller}-${turn}`;
          await pool.query({
            name: "acquire",
            text: NAIVE.acquire,
            values: [resource, "me", TTL_MS],
          });
          const mine = held.get(caller);
          if (mine) mine.push(resource);
          else held.set(caller, [resource]);
        });
        const renew = await rateOf(CALLERS, forMs, async (caller, turn) => {
          const mine = held.get(caller) ?? [];
          const values = [mine[turn % mine.length], "me", TTL_MS];
          await pool.query({ name: "renew", text: NAIVE.renew, values });
        });
        const all = [...held.values()].flat();
        const release = await drain(all, (resource) =>
          pool.query({ name: "release", text: NAIVE.release, values: [resource, "me"] }),
        );
        return { acquire, renew, release };
      },
    };
    let round = 0;
    const keep = async (/** @type {"ours" | "theirs"} */ side) => {
      const rates = await sides[side](round);
      if (round >= 2) {
        for (const name of OPERATIONS) figures[name][side].push(rates[name]);
      }
      round += 1;
      return 0;
    };
    await interleaved(
      size(5, 3),
      { ours: () => keep("ours"), theirs: () => keep("theirs") },
      progress,
    );
    await leases.close();
    await pool.end();
    return OPERATIONS.map((name) => {
      const { ours, theirs } = figures[name];
      const row = {
        id: `lease-${name}-postgres`,
        what: name,
        reach: 10,
        better: /** @type {const} */ ("higher"),
        figures: { ours: perSecond(mid(ours)), theirs: perSecond(mid(theirs)) },
      };
      return ratioRow(row, ours, theirs);
    });
  },
};

const OPERATIONS = /** @type {const} */ (["acquire", "renew", "release"]);

/** @returns {{ ours: number[], theirs: number[] }} */
function none() {
  return { ours: [], theirs: [] };
}

/** @param {readonly number[]} values */
function mid(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

/**
 * Processes all items with CALLERS concurrent callers, and returns the items per second.
 * @template T
 * @param {readonly T[]} all
 * @param {(one: T) => Promise<unknown>} work
 */
async function drain(all, work) {
  const begin = performance.now();
  let next = 0;
  await Promise.all(
    Array.from({ length: CALLERS }, async () => {
      while (next < all.length) await work(all[next++]);
    }),
  );
  return (all.length / (performance.now() - begin)) * 1_000;
}

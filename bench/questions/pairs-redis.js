// Acquire and release on Redis, tokens included, beside the most used lock packages for Redis.
//
// ratio = our pairs per second / theirs, on one Redis, 64 and 512 callers, each with resources of its
// own. The ratio compares overhead without contention. `postgres` is durable PostgreSQL beside
// node-redlock on Redis, which keeps nothing on disk. The limit is only shown.
import { Redis } from "ioredis";
import { connect } from "leasehold";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import * as limit from "../contenders/limit-redis.js";
import { interleaved, rateOf } from "../measure.js";
import { ratioRow } from "../rows.js";

const TTL_MS = 30_000;
const CALLERS = [64, 512];
const PEERS = /** @type {const} */ ([
  ["redlock", "node-redlock 5 beta", 2],
  ["redis-semaphore", "redis-semaphore 5", 1.6],
  ["limit", "a minimal client and script", null],
]);

/** @type {import("../measure.js").Question} */
export default {
  question:
    "Acquire + release pairs per second on Redis, tokens included; and on durable PostgreSQL",
  async run({ engines, size, progress }) {
    const url = await engines.redis();
    const redis = new Redis(url);
    const redlock = new Redlock([redis], { retryCount: 0 });
    const floor = limit.open(url, TTL_MS);
    const defaults = { ttlMs: TTL_MS };
    const onRedis = await connect(url, { defaults });
    const onPostgres = await connect(await engines.freshDatabase(), { defaults });
    const [redisCpu, postgresCpu] = [await engines.cpu("redis"), await engines.cpu("postgres")];
    const forMs = size(2_000, 500);
    const rows = [];
    for (const callers of CALLERS) {
      const pairs =
        (/** @type {(resource: string) => Promise<unknown>} */ work, cpu = redisCpu) =>
        () =>
          rateOf(cpu, callers, forMs, (caller, turn) => work(`pair-${caller}-${turn % 16}`));
      const contenders = {
        ours: pairs(async (resource) => (await onRedis.acquire(resource)).release()),
        redlock: pairs(async (resource) =>
          (await redlock.acquire([`redlock-${resource}`], TTL_MS)).release(),
        ),
        "redis-semaphore": pairs(async (resource) => {
          const mutex = new Mutex(redis, `semaphore-${resource}`, { lockTimeout: TTL_MS });
          await mutex.acquire();
          await mutex.release();
        }),
        limit: pairs((resource) => floor.pair(`limit-${resource}`)),
        postgres: pairs(
          async (resource) => (await onPostgres.acquire(resource)).release(),
          postgresCpu,
        ),
      };
      const measured = await interleaved(size(5, 3), contenders, (text) =>
        progress(`${callers} callers, ${text}`),
      );
      const better = /** @type {const} */ ("higher");
      for (const [peer, beside, reach] of PEERS) {
        const id = peer === "limit" ? `pairs-limit-redis-${callers}` : `pairs-${peer}-${callers}`;
        const target = { id, what: `pairs on Redis, ${callers} callers`, beside, reach, better };
        rows.push(ratioRow(target, "/s", { ours: measured.ours, [peer]: measured[peer] }));
      }
      if (callers !== 512) continue;
      const target = {
        id: "pairs-postgres-redlock-512",
        what: "pairs on durable PostgreSQL, 512 callers",
        beside: "node-redlock on Redis",
        reach: 0.9,
        better,
      };
      rows.push(ratioRow(target, "/s", { ours: measured.postgres, redlock: measured.redlock }));
    }
    await onRedis.close();
    await onPostgres.close();
    floor.close();
    redis.disconnect();
    return rows;
  },
};

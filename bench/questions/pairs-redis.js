// Acquire and release on Redis, tokens included, beside the most used lock packages for Redis.
//
// ratio = our pairs per second / theirs, on one Redis, 64 and 512 callers, each with resources of its
// own. The ratio compares overhead without contention. `postgres` is durable PostgreSQL beside
// node-redlock on Redis, which keeps nothing on disk.
import { Redis } from "ioredis";
import { connect } from "leasehold";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import { interleaved, median, perSecond, rateOf, ratioRow } from "../measure.js";

const TTL_MS = 30_000;
const CALLERS = [64, 512];

/** @type {import("../measure.js").Question} */
export default {
  question:
    "Acquire + release pairs per second on Redis, tokens included; and on durable PostgreSQL",
  sideBySide: "node-redlock 5 beta and redis-semaphore 5 on the same Redis",
  ids: [
    ...CALLERS.flatMap((callers) => [
      `pairs-redlock-${callers}`,
      `pairs-redis-semaphore-${callers}`,
    ]),
    "pairs-postgres-redlock-512",
  ],
  async run({ engines, size, progress }) {
    const url = await engines.redis();
    const redis = new Redis(url);
    const redlock = new Redlock([redis], { retryCount: 0 });
    const defaults = { ttlMs: TTL_MS };
    const onRedis = await connect(url, { defaults });
    const onPostgres = await connect(await engines.freshDatabase(), { defaults });
    const forMs = size(2_000, 500);
    const rows = [];
    for (const callers of CALLERS) {
      const pairs = (/** @type {(resource: string) => Promise<unknown>} */ work) => () =>
        rateOf(callers, forMs, (caller, turn) => work(`pair-${caller}-${turn % 16}`));
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
        postgres: pairs(async (resource) => (await onPostgres.acquire(resource)).release()),
      };
      const measured = await interleaved(size(5, 3), contenders, (text) =>
        progress(`${callers} callers, ${text}`),
      );
      for (const peer of /** @type {const} */ (["redlock", "redis-semaphore"])) {
        rows.push(
          ratioRow(
            {
              id: `pairs-${peer}-${callers}`,
              what: `${peer}, ${callers} callers`,
              reach: 2,
              better: "higher",
              figures: {
                ours: perSecond(median(measured.ours)),
                theirs: perSecond(median(measured[peer])),
              },
            },
            measured.ours,
            measured[peer],
          ),
        );
      }
      if (callers !== 512) continue;
      rows.push(
        ratioRow(
          {
            id: "pairs-postgres-redlock-512",
            reach: 1,
            better: "higher",
            what: "durable PostgreSQL beside redlock, 512 callers",
            figures: {
              ours: perSecond(median(measured.postgres)),
              theirs: perSecond(median(measured.redlock)),
            },
          },
          measured.postgres,
          measured.redlock,
        ),
      );
    }
    await onRedis.close();
    await onPostgres.close();
    redis.disconnect();
    return rows;
  },
};

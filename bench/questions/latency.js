// The overhead of a lease for a single caller, on durable PostgreSQL and on Redis.
//
// ratio = median latency of `acquire`, and of `run` with work that does nothing / that of the bare
// statements that a program would write by hand, on a connection of their own: one to acquire, and for
// `run` one more to release
import { Redis } from "ioredis";
import { connect } from "leasehold";
import { openStatements } from "../contenders/leases/naive.js";
import { interleaved, latencyOf } from "../measure.js";
import { ratioRow } from "../rows.js";

const TTL_MS = 60_000;
/** Releases only what the caller still holds. */
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;

/** @type {import("../measure.js").Question} */
export default {
  question: "Median latency of one idle caller's acquire and run",
  async run(scope) {
    const { engines } = scope;
    const database = await engines.freshDatabase();
    const statements = await openStatements(database, 1);
    const redis = await bareRedis(await engines.redis());
    const postgresRows = await latencies(scope, "postgres", database, statements, {
      reach: 1.3,
      beside: { acquire: "the bare statement", run: "two bare statements" },
    });
    const redisRows = await latencies(scope, "redis", await engines.redis(), redis, {
      reach: 1.5,
      beside: { acquire: "SET NX", run: "SET NX and a script that releases" },
    });
    await statements.close();
    await redis.close();
    return [...postgresRows, ...redisRows];
  },
};

/** @param {string} url */
async function bareRedis(url) {
  const redis = new Redis(url);
  redis.defineCommand("bareRelease", { numberOfKeys: 1, lua: RELEASE });
  return {
    async acquire(/** @type {string} */ name) {
      if ((await redis.set(name, "me", "PX", TTL_MS, "NX")) !== "OK") throw new Error(name);
    },
    release: (/** @type {string} */ name) => /** @type {any} */ (redis).bareRelease(name, "me"),
    close: async () => redis.disconnect(),
  };
}

/**
 * @param {import("../measure.js").Scope} scope
 * @param {"postgres" | "redis"} store
 * @param {string} url
 * @param {{ acquire(name: string): Promise<unknown>, release(name: string): Promise<unknown> }} bare
 * @param {{ reach: number, beside: Record<"acquire" | "run", string> }} target
 */
async function latencies({ engines, size, progress }, store, url, bare, { reach, beside }) {
  const cpu = await engines.cpu(store);
  const leases = await connect(url, { defaults: { ttlMs: TTL_MS, autoRenew: false } });
  const each = (
    /** @type {string} */ prefix,
    /** @type {(name: string) => Promise<unknown>} */ work,
  ) => {
    const times = { postgres: size(1_000, 300), redis: size(5_000, 2_000) }[store];
    return (/** @type {number} */ round) =>
      latencyOf(cpu, times, (turn) => work(`${prefix}-${round}-${turn}`));
  };
  const measured = await interleaved(
    size(9, 4),
    {
      acquire: each("acquire", (name) => leases.acquire(name)),
      bareAcquire: each("bare-acquire", bare.acquire),
      run: each("run", (name) => leases.run(name, () => {})),
      bareRun: each("bare-run", async (name) => {
        await bare.acquire(name);
        await bare.release(name);
      }),
    },
    (text) => progress(`${store}, ${text}`),
  );
  await leases.close();
  const row = (
    /** @type {"acquire" | "run"} */ what,
    /** @type {"bareAcquire" | "bareRun"} */ peer,
  ) =>
    ratioRow(
      {
        id: `${what === "acquire" ? "lease" : what}-latency-${store}`,
        what: `p50 of ${what}, ${store}`,
        beside: beside[what],
        reach,
        better: "lower",
      },
      "ms",
      { ours: measured[what], bare: measured[peer] },
    );
  return [row("acquire", "bareAcquire"), row("run", "bareRun")];
}

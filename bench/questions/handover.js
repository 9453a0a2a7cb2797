// How soon the next waiter runs after a release. Two clients pass one lease back and forth.
//
// ratio 1 = median time from the call of release() until the waiting client's work runs / median time
//           of one durable write to the same store, after the same idle time: idle processes and
//           connections respond more slowly than busy ones
// ratio 2 = the same time of node-redlock, which retries every 200 ms / ours, both on Redis

import { Redis } from "ioredis";
import { connect } from "leasehold";
import pg from "pg";
import Redlock from "redlock";
import { interleaved, latencyOf, median } from "../measure.js";
import { ratioRow } from "../rows.js";

/** Idle time between two handovers, in which the next client enters the wait queue. */
const IDLE_MS = 60;
const WRITE = "INSERT INTO written VALUES ($1)";
const SCRIPT = "redis.call('SET', KEYS[1], ARGV[1]) return 'ok'";

/** @type {import("../measure.js").Question} */
export default {
  question: "Release to the next waiter's work",
  async run({ engines, size, progress }) {
    const times = size(200, 24);
    const rounds = size(7, 3);
    const postgresUrl = await engines.freshDatabase();
    const sql = new pg.Client({ connectionString: postgresUrl });
    await sql.connect();
    await sql.query("CREATE TABLE written (n int)");
    const redis = new Redis(await engines.redis());
    const overPostgres = await pairOf(postgresUrl);
    const overRedis = await pairOf(await engines.redis());
    const measured = await interleaved(
      rounds,
      {
        postgres: () => handOvers(overPostgres, times),
        redis: () => handOvers(overRedis, times),
        postgresTrip() {
          const write = (/** @type {number} */ n) =>
            sql.query({ name: "write", text: WRITE, values: [n] });
          return latencyOf({}, times, write, IDLE_MS);
        },
        redisTrip() {
          const write = (/** @type {number} */ n) => redis.eval(SCRIPT, 1, "written", n);
          return latencyOf({}, times, write, IDLE_MS);
        },
        redlock: () => redlockHandOvers(redis, Math.ceil(times / 10)),
      },
      progress,
    );
    for (const { first, second } of [overPostgres, overRedis]) {
      await first.close();
      await second.close();
    }
    await sql.end();
    redis.disconnect();
    const row = (/** @type {"postgres" | "redis"} */ name) =>
      ratioRow(
        {
          id: `handover-${name}`,
          what: `release to the next waiter, ${name}`,
          beside: "one round trip",
          reach: 3,
          better: "lower",
        },
        "ms",
        { handover: measured[name], "round trip": measured[`${name}Trip`] },
      );
    return [
      row("postgres"),
      row("redis"),
      ratioRow(
        {
          id: "handover-redlock",
          what: "release to the next waiter, redis: how much sooner",
          beside: "node-redlock's retries",
          reach: 20,
          better: "higher",
        },
        "ms",
        { redlock: measured.redlock, ours: measured.redis },
      ),
    ];
  },
};

/** @param {string} url */
async function pairOf(url) {
  const options = { defaults: { ttlMs: 30_000 } };
  return { first: await connect(url, options), second: await connect(url, options) };
}

/**
 * @param {Awaited<ReturnType<typeof pairOf>>} pair
 * @param {number} times
 */
async function handOvers({ first, second }, times) {
  const taken = [];
  let held = await first.acquire("baton");
  for (let turn = 0; turn < times; turn += 1) {
    const next = turn % 2 === 0 ? second : first;
    const waiting = next.acquire("baton").then((lease) => ({ lease, at: performance.now() }));
    // The other client enters the wait queue and subscribes in this time, which is not measured.
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
    const released = performance.now();
    void held.release();
    const { lease, at } = await waiting;
    taken.push(at - released);
    held = lease;
  }
  await held.release();
  return { value: median(taken) };
}

/**
 * @param {Redis} redis
 * @param {number} times
 */
async function redlockHandOvers(redis, times) {
  const redlock = new Redlock([redis], { retryCount: -1 });
  const taken = [];
  let held = await redlock.acquire(["redlock-baton"], 30_000);
  for (let turn = 0; turn < times; turn += 1) {
    const waiting = redlock
      .acquire(["redlock-baton"], 30_000)
      .then((lock) => ({ lock, at: performance.now() }));
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS + 200 * Math.random()));
    const released = performance.now();
    void held.release();
    const { lock, at } = await waiting;
    taken.push(at - released);
    held = lock;
  }
  await held.release();
  return { value: median(taken) };
}

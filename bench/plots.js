// Draws the plots of docs/performance.md: rates against the number of callers, and against size.
//
//   node bench/plots.js          writes docs/performance/*.svg
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { connect } from "leasehold";
import pg from "pg";
import Redlock from "redlock";
import { provenance } from "../verification/support/provenance.js";
import { openStatements } from "./contenders/leases/naive.js";
import { CHART, draw } from "./draw.js";
import { Engines } from "./engines.js";
import { median, rateOf } from "./measure.js";

const folder = fileURLToPath(new URL("../docs/performance/", import.meta.url));
const CALLERS = [1, 4, 16, 64, 256, 512];
const SIZES = [1_000, 10_000, 100_000, 1_000_000];
const ROUNDS = 3;
const FOR_MS = 1_000;
const TTL_MS = 30_000;

const engines = new Engines();
const database = await engines.freshDatabase();
const pool = new pg.Pool({ connectionString: database, max: 1 });
const naive = await openStatements(database);
const redis = new Redis(await engines.redis());
const redlock = new Redlock([redis], { retryCount: 0 });
const defaults = { ttlMs: TTL_MS };
const onPostgres = await connect(database, { defaults });
const onRedis = await connect(await engines.redis(), { defaults });

/** @type {Record<string, (resource: string) => Promise<unknown>>} */
const contenders = {
  "Leasehold on PostgreSQL": async (resource) => (await onPostgres.acquire(resource)).release(),
  "one statement a call": async (resource) => {
    await naive.acquire(resource);
    await naive.release(resource);
  },
  "Leasehold on Redis": async (resource) => (await onRedis.acquire(resource)).release(),
  "node-redlock": async (resource) => (await redlock.acquire([`rl-${resource}`], TTL_MS)).release(),
};
/** @type {{ contender: string, callers: number, rate: number }[]} */
const points = [];
for (const callers of CALLERS) {
  /** @type {Map<string, number[]>} */
  const rates = new Map();
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [contender, pair] of Object.entries(contenders)) {
      const { value } = await rateOf({}, callers, FOR_MS, (caller, turn) =>
        pair(`p-${caller}-${turn % 16}`),
      );
      if (round > 0) rates.set(contender, [...(rates.get(contender) ?? []), value]);
    }
  }
  for (const [contender, all] of rates) points.push({ contender, callers, rate: median(all) });
  console.log(
    callers,
    Object.fromEntries([...rates].map(([name, all]) => [name, Math.round(median(all))])),
  );
}
/** @type {{ live: number, rate: number }[]} */
const sizes = [];
let live = 0;
for (const size of SIZES) {
  await pool.query(
    `INSERT INTO leasehold.lease
       (namespace, resource, lease_id, holder, token, ttl_ms, granted_at, expires_at)
     SELECT 'default', 'live-' || n, 'id-' || n, 'plots', 1, 3600000, now(), now() + interval '1 hour'
     FROM generate_series($1::int, $2::int) n`,
    [live + 1, size],
  );
  await pool.query("ANALYZE leasehold.lease");
  live = size;
  const rates = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const { value } = await rateOf({}, 64, FOR_MS, async (caller, turn) =>
      (await onPostgres.acquire(`s-${caller}-${turn % 16}`)).release(),
    );
    if (round > 0) rates.push(value);
  }
  sizes.push({ live: size, rate: median(rates) });
  console.log(size, "live leases", Math.round(median(rates)));
}
await Promise.all([onPostgres.close(), onRedis.close(), naive.close(), pool.end()]);
redis.disconnect();
await engines.close();

mkdirSync(folder, { recursive: true });
const { date, commit, machine } = provenance();
const subtitle = `${date.slice(0, 10)}, ${commit}, ${machine}`;
await draw(`${folder}pairs-by-callers.svg`, {
  ...CHART,
  data: { values: points },
  mark: { type: "line", point: true },
  title: { text: "Pairs of acquire and release a second, by callers", subtitle },
  encoding: {
    x: {
      field: "callers",
      type: "quantitative",
      scale: { type: "log", base: 2 },
      title: "callers",
    },
    y: { field: "rate", type: "quantitative", scale: { type: "log" }, title: "pairs a second" },
    color: {
      field: "contender",
      type: "nominal",
      title: null,
      legend: { orient: "bottom", columns: 2 },
    },
    strokeDash: { field: "contender", type: "nominal", title: null },
  },
});
await draw(`${folder}pairs-by-size.svg`, {
  ...CHART,
  data: { values: sizes },
  mark: { type: "line", point: true },
  title: {
    text: "Pairs a second on PostgreSQL with 64 callers, by live leases in the table",
    subtitle,
  },
  encoding: {
    x: { field: "live", type: "quantitative", scale: { type: "log" }, title: "live leases" },
    y: { field: "rate", type: "quantitative", title: "pairs a second" },
  },
});
process.exit(0);

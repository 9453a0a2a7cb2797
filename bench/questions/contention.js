// Leases that several want: refusals, waiting callers, and batches on the same names. Beside nothing but earlier runs.
//
// refusals  = refused acquires per second, of 64 callers of one store, on one held resource, and on 64
// waiting   = acquires and releases per second, of 64 and 512 callers of 8 stores that wait for 1, 8 and 64 resources
// queue     = the same of 1,000 callers that wait for one resource
// batches   = milliseconds of a batch that acquires, and one that releases, 256 names that 4 stores want at once
// The statements or commands that the engine executes are counted for each operation.
import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import { connect, openStores } from "leasehold";
import pg from "pg";
import { interleaved, median, metered, rateOf } from "../measure.js";
import { valueRow } from "../rows.js";

/** @typedef {import("../measure.js").Round & { statements: number }} Counted */
/** @typedef {{ value: number, count: number }} Worked */

const TTL_MS = 60_000;
const STORES = 8;
const CROWD = 1_000;
const [BATCH, BATCHING] = [256, 4];
const ENGINES = /** @type {const} */ (["postgres", "redis"]);

/** @type {import("../measure.js").Question} */
export default {
  question: "Leases that several callers want at once",
  async run({ engines, size, progress }) {
    const rows = [];
    for (const engine of ENGINES) {
      const url = engine === "postgres" ? await engines.freshDatabase() : await engines.redis();
      const cpu = await engines.cpu(engine);
      const statements = await statementsOf(engine, url);
      const counted = (/** @type {() => Promise<Worked>} */ work) => async () => {
        const before = await statements.read();
        let count = 0;
        const round = await metered(cpu, async () => {
          const worked = await work();
          count = worked.count;
          return worked;
        });
        return { ...round, statements: ((await statements.read()) - before) / count };
      };
      const forMs = size(2_000, 500);
      const clients = await Promise.all(Array.from({ length: STORES }, () => connect(url)));
      const stores = await Promise.all(Array.from({ length: BATCHING }, () => openStores(url)));
      const waiting = (/** @type {number} */ callers, /** @type {number} */ resources) =>
        counted(() => waitingCallers(clients, { callers, resources, forMs }));
      const measured = await interleaved(
        size(7, 3),
        {
          "64 refused on 1": counted(() => refusals(stores[0].leases, 1, forMs)),
          "64 refused on 64": counted(() => refusals(stores[0].leases, 64, forMs)),
          "64 waiting on 1": waiting(64, 1),
          "64 waiting on 8": waiting(64, 8),
          "64 waiting on 64": waiting(64, 64),
          "512 waiting on 1": waiting(512, 1),
          "512 waiting on 8": waiting(512, 8),
          "512 waiting on 64": waiting(512, 64),
          [`${CROWD} waiting on 1`]: waiting(CROWD, 1),
          [`${BATCHING} batches of ${BATCH}`]: counted(() =>
            batches(
              stores.map(({ leases }) => leases),
              forMs,
            ),
          ),
        },
        progress,
      );
      await Promise.all([...clients, ...stores].map((one) => one.close()));
      await statements.close();
      for (const [what, rounds] of Object.entries(measured))
        rows.push(...rowsOf(engine, what, rounds));
    }
    return rows;
  },
};

/**
 * @param {string} engine
 * @param {string} what
 * @param {readonly Counted[]} rounds
 */
function rowsOf(engine, what, rounds) {
  const id = `contention-${engine}-${what.replaceAll(/\W+/g, "-")}`;
  const isTime = what.includes("batches");
  const [unit, better] = isTime
    ? ["ms", /** @type {const} */ ("lower")]
    : ["/s", /** @type {const} */ ("higher")];
  const cpuUs = Object.fromEntries(
    Object.keys(rounds[0]?.cpuUs ?? {}).map((name) => [
      name,
      median(rounds.map((round) => round.cpuUs?.[name] ?? NaN)),
    ]),
  );
  const values = rounds.map(({ value }) => value);
  const statements = rounds.map((round) => round.statements);
  const target = { what: `${what}, ${engine}`, beside: "earlier runs", reach: null };
  return [
    valueRow({ ...target, id, better }, unit, values, {
      ours: { value: median(values), unit, cpuUs },
    }),
    valueRow(
      { ...target, id: `${id}-statements`, what: `statements: ${target.what}`, better: "lower" },
      "statements",
      statements,
      {},
    ),
  ];
}

/**
 * How many statements an engine has executed for this process, or commands.
 * @param {"postgres" | "redis"} engine
 * @param {string} url
 */
async function statementsOf(engine, url) {
  if (engine === "redis") {
    const redis = new Redis(url);
    const read = async () => {
      const text = await redis.info("stats");
      return Number(/total_commands_processed:(\d+)/.exec(text)?.[1]);
    };
    return { read, close: async () => redis.disconnect() };
  }
  let count = 0;
  const { query } = pg.Client.prototype;
  pg.Client.prototype.query = function counting(/** @type {unknown[]} */ ...args) {
    count += 1;
    // @ts-expect-error The overloads of pg have no common signature.
    return query.apply(this, args);
  };
  return {
    read: async () => count,
    close: async () => {
      pg.Client.prototype.query = query;
    },
  };
}

/**
 * @param {import("leasehold/port").LeaseStore} store
 * @param {number} resources
 * @param {number} forMs
 */
async function refusals(store, resources, forMs) {
  const run = randomBytes(4).toString("hex");
  const held = Array.from({ length: resources }, (_, at) => requestOf(`refused-${run}-${at}`));
  await store.acquire(held);
  const callers = 64;
  const { value, count } = await countedRate(callers, forMs, async (caller) => {
    const [outcome] = await store.acquire([requestOf(held[caller % resources].resource)]);
    if (outcome?.status !== "held") throw new Error(`it is ${outcome?.status}, not held`);
  });
  await store.release(held);
  return { value, count };
}

/**
 * @param {readonly import("leasehold").Leasehold[]} clients
 * @param {{ callers: number, resources: number, forMs: number }} options
 */
function waitingCallers(clients, { callers, resources, forMs }) {
  const run = randomBytes(4).toString("hex");
  return countedRate(callers, forMs, async (caller) => {
    const lease = await clients[caller % clients.length].acquire(
      `wait-${run}-${caller % resources}`,
      {
        ttlMs: TTL_MS,
        waitMs: TTL_MS,
      },
    );
    await lease.release();
  });
}

/**
 * @param {readonly import("leasehold/port").LeaseStore[]} stores
 * @param {number} forMs
 */
async function batches(stores, forMs) {
  const run = randomBytes(4).toString("hex");
  const begin = performance.now();
  /** @type {number[]} */
  const tookMs = [];
  await Promise.all(
    stores.map(async (store) => {
      while (performance.now() - begin < forMs) {
        const requests = Array.from({ length: BATCH }, (_, at) => requestOf(`batch-${run}-${at}`));
        const sinceMs = performance.now();
        await store.acquire(requests);
        tookMs.push(performance.now() - sinceMs);
        await store.release(requests);
      }
    }),
  );
  return { value: median(tookMs), count: tookMs.length };
}

/**
 * @param {number} callers
 * @param {number} forMs
 * @param {(caller: number) => Promise<unknown>} work
 */
async function countedRate(callers, forMs, work) {
  let count = 0;
  const { value } = await rateOf({}, callers, forMs, async (caller) => {
    await work(caller);
    count += 1;
  });
  return { value, count };
}

/** @param {string} resource */
function requestOf(resource) {
  const leaseId = randomBytes(24).toString("hex");
  return { namespace: "default", resource, leaseId, holder: "bench", ttlMs: TTL_MS };
}

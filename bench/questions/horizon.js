// How a long transaction slows claims down. While it holds the horizon, PostgreSQL cannot remove dead row
// versions, and claims read past a growing number of them.
//
// ratio = (our rate while it is held / our rate before) / (the same of graphile-worker). Both run plain
// workers with 10 concurrent handlers, graphile-worker without its local queue, so that each task needs a
// claim of its own.
import pg from "pg";
import { contender } from "../contenders/process.js";
import { median } from "../measure.js";
import { ratioRow } from "../rows.js";

/** Far more tasks than either contender completes. */
const BACKLOG = { full: 600_000, quick: 100_000 };

/** @type {import("../measure.js").Question} */
export default {
  question: "Rate of claims while a transaction holds the horizon",
  async run({ engines, size, progress }) {
    const urls = { ours: await engines.freshDatabase(), graphile: await engines.freshDatabase() };
    /** @type {Record<"ours" | "graphile", { before: number[], during: number[] }>} */
    const rates = { ours: { before: [], during: [] }, graphile: { before: [], during: [] } };
    const heldMs = size(60_000, 6_000);
    for (let round = 0; round < size(3, 1); round += 1) {
      for (const name of /** @type {const} */ (["ours", "graphile"])) {
        progress(`round ${round + 1}: ${name}`);
        const side = await contender(name, urls[name]);
        await side.load(size(BACKLOG.full, BACKLOG.quick));
        await side.rate(1_000);
        rates[name].before.push(await side.rate(heldMs / 5));
        const holder = new pg.Client({ connectionString: urls[name] });
        await holder.connect();
        await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
        await holder.query("SELECT txid_current(), count(*) FROM pg_class");
        rates[name].during.push(await side.rate(heldMs));
        await holder.query("ROLLBACK");
        await holder.end();
        await side.close();
      }
    }
    const fall = (/** @type {"ours" | "graphile"} */ name) =>
      rates[name].during.map((rate, round) => ({
        value: rate / (rates[name].before[round] ?? NaN),
      }));
    const side = (/** @type {readonly number[]} */ values) => ({
      value: median(values),
      unit: "/s",
    });
    const target = {
      id: "horizon",
      what: `claims while a transaction is open for ${heldMs / 1_000} s`,
      beside: "graphile-worker",
      reach: 1,
      better: /** @type {const} */ ("higher"),
    };
    const sides = {
      "ours before": side(rates.ours.before),
      "ours during": side(rates.ours.during),
      "graphile before": side(rates.graphile.before),
      "graphile during": side(rates.graphile.during),
    };
    return [
      { ...ratioRow(target, "x", { ours: fall("ours"), graphile: fall("graphile") }), sides },
    ];
  },
};

// Tasks per second of a worker with a full queue. The handlers do nothing, so that the queue alone is
// measured. Each contender is one process under Node 24 with the settings that suit it best.
// Ours and pg-boss keep every finished task, ours with its output, its lease and each attempt;
// graphile-worker deletes what is done. PostgreSQL is durable for all; Redis has its default settings.
//
// ratio = our tasks per second / theirs, from the start signal to a connected process until the last
// task is finished in the store
import { contender } from "../contenders/process.js";
import { interleaved, median, perSecond, ratioRow } from "../measure.js";

/** Enough work for at least a second at each contender's speed. */
const SIZES = {
  ours: { full: 50_000, quick: 20_000 },
  graphile: { full: 50_000, quick: 20_000 },
  pgBoss: { full: 20_000, quick: 10_000 },
  bullmq: { full: 20_000, quick: 10_000 },
};

/** @type {import("../measure.js").Question} */
export default {
  question: "Tasks per second, preloaded, handlers that do nothing, on durable PostgreSQL",
  sideBySide:
    "graphile-worker 0.18 (localQueue 500, batched completion), pg-boss 10 (batches of 100), BullMQ 6 on Redis",
  ids: ["tasks-graphile", "tasks-pg-boss", "tasks-bullmq"],
  async run({ engines, size, progress }) {
    const sides = {
      ours: await contender("ours", await engines.freshDatabase()),
      graphile: await contender("graphile", await engines.freshDatabase()),
      pgBoss: await contender("pg-boss", await engines.freshDatabase()),
      bullmq: await contender("bullmq", await engines.redis()),
    };
    const rateOf = (/** @type {keyof typeof sides} */ name) => async () => {
      const count = size(SIZES[name].full, SIZES[name].quick);
      await sides[name].load(count);
      return (count / (await sides[name].drain(count))) * 1_000;
    };
    const rates = await interleaved(
      size(5, 2),
      {
        ours: rateOf("ours"),
        graphile: rateOf("graphile"),
        pgBoss: rateOf("pgBoss"),
        bullmq: rateOf("bullmq"),
      },
      progress,
    );
    await Promise.all(Object.values(sides).map((side) => side.close()));
    const row = (
      /** @type {"graphile" | "pgBoss" | "bullmq"} */ name,
      /** @type {string} */ id,
      /** @type {number} */ reach,
    ) =>
      ratioRow(
        {
          id: `tasks-${id}`,
          what: `beside ${id}`,
          reach,
          better: "higher",
          figures: {
            ours: perSecond(median(rates.ours)),
            theirs: perSecond(median(rates[name])),
          },
        },
        rates.ours,
        rates[name],
      );
    return [
      row("graphile", "graphile", 1.5),
      row("pgBoss", "pg-boss", 3),
      row("bullmq", "bullmq", 3),
    ];
  },
};

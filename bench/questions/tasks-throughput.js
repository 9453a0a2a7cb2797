// Tasks per second of a worker with a full queue. The handlers do nothing, so that the queue alone is
// measured. Each contender is one process under Node 24 with the settings that suit it best.
// Ours and pg-boss keep every finished task, ours with its output, its lease and each attempt;
// graphile-worker deletes what is done. PostgreSQL is durable for all; Redis has its default settings.
//
// ratio = our tasks per second / theirs, from the start signal to a connected process until the last
// task is finished in the store
import { contender } from "../contenders/process.js";
import { interleaved, rateOfAll } from "../measure.js";
import { ratioRow } from "../rows.js";

/** Each with enough work for at least a second at its speed. */
const SIZES = {
  ours: { full: 50_000, quick: 40_000 },
  limit: { full: 100_000, quick: 70_000 },
  graphile: { full: 50_000, quick: 20_000 },
  pgBoss: { full: 20_000, quick: 10_000 },
  bullmq: { full: 20_000, quick: 10_000 },
};

/** @type {import("../measure.js").Question} */
export default {
  question: "Tasks per second, preloaded, handlers that do nothing, on durable PostgreSQL",
  async run({ engines, size, progress }) {
    const sides = {
      ours: await contender("ours", await engines.freshDatabase()),
      limit: await contender("limit-tasks", await engines.freshDatabase()),
      graphile: await contender("graphile", await engines.freshDatabase()),
      pgBoss: await contender("pg-boss", await engines.freshDatabase()),
      bullmq: await contender("bullmq", await engines.redis()),
    };
    const [postgres, redis] = [await engines.cpu("postgres"), await engines.cpu("redis")];
    const drained = (/** @type {keyof typeof sides} */ name) => async () => {
      const side = sides[name];
      const count = size(SIZES[name].full, SIZES[name].quick);
      await side.load(count);
      const { server } = name === "bullmq" ? redis : postgres;
      return rateOfAll({ client: side.cpuUs, server }, count, () => side.drain(count));
    };
    const rates = await interleaved(
      size(5, 4),
      {
        ours: drained("ours"),
        limit: drained("limit"),
        graphile: drained("graphile"),
        pgBoss: drained("pgBoss"),
        bullmq: drained("bullmq"),
      },
      progress,
    );
    await Promise.all(Object.values(sides).map((side) => side.close()));
    const row = (
      /** @type {keyof typeof rates} */ name,
      /** @type {string} */ id,
      /** @type {string} */ beside,
      /** @type {number} */ reach,
    ) =>
      ratioRow(
        {
          id: `tasks-${id}`,
          what: "tasks drained",
          beside,
          reach,
          better: "higher",
          gate: name === "limit",
        },
        "/s",
        { ours: rates.ours, [id]: rates[name] },
      );
    return [
      row("limit", "limit", "plain claim and completion statements", 0.5),
      row(
        "graphile",
        "graphile",
        "graphile-worker 0.18 (localQueue 500, batched completion)",
        1.15,
      ),
      row("pgBoss", "pg-boss", "pg-boss 10 (batches of 100)", 4),
      row("bullmq", "bullmq", "BullMQ 6 on Redis", 2),
    ];
  },
};

// How soon an idle worker starts a task after it was enqueued.
//
// ratio = median time from the call of enqueue until the handler starts / the same of graphile-worker
// without its local queue, which would only delay it. Both run in one process with 10 concurrent handlers.
import { contender } from "../contenders/process.js";
import { interleaved, median, ms, ratioRow } from "../measure.js";

/** @type {import("../measure.js").Question} */
export default {
  question: "Enqueue to the start of the handler, with an idle worker",
  sideBySide: "graphile-worker 0.18",
  ids: ["tasks-latency"],
  async run({ engines, size, progress }) {
    const sides = {
      ours: await contender("ours", await engines.freshDatabase()),
      graphile: await contender("graphile", await engines.freshDatabase()),
    };
    const times = size(200, 30);
    const { ours, graphile } = await interleaved(
      size(9, 5),
      {
        ours: async () => median(await sides.ours.latencies(times)),
        graphile: async () => median(await sides.graphile.latencies(times)),
      },
      progress,
    );
    await Promise.all(Object.values(sides).map((side) => side.close()));
    const row = {
      id: "tasks-latency",
      what: "p50",
      reach: 1,
      better: /** @type {const} */ ("lower"),
      figures: { ours: ms(median(ours)), theirs: ms(median(graphile)) },
    };
    return [ratioRow(row, ours, graphile)];
  },
};

// How soon an idle worker starts a task after it was enqueued.
//
// ratio = median time from the call of enqueue until the handler starts / the same of graphile-worker
// without its local queue, which would only delay it. Both run in one process with 10 concurrent handlers.
import { contender } from "../contenders/process.js";
import { interleaved, median } from "../measure.js";
import { ratioRow } from "../rows.js";

/** @type {import("../measure.js").Question} */
export default {
  question: "Enqueue to the start of the handler, with an idle worker",
  async run({ engines, size, progress }) {
    const sides = {
      ours: await contender("ours", await engines.freshDatabase()),
      graphile: await contender("graphile", await engines.freshDatabase()),
    };
    const times = size(200, 30);
    const latency = (/** @type {keyof typeof sides} */ name) => async () => ({
      value: median(await sides[name].latencies(times)),
    });
    const { ours, graphile } = await interleaved(
      size(9, 5),
      { ours: latency("ours"), graphile: latency("graphile") },
      progress,
    );
    await Promise.all(Object.values(sides).map((side) => side.close()));
    const target = {
      id: "tasks-latency",
      what: "p50 from enqueue to the handler, idle worker",
      beside: "graphile-worker",
      reach: 1,
      better: /** @type {const} */ ("lower"),
    };
    return [ratioRow(target, "ms", { ours, graphile })];
  },
};

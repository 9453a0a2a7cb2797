// Tasks enqueued per second on durable PostgreSQL, one by one and in bulk.
//
// ratio = our tasks per second / theirs: 64 callers that enqueue one task a call, and one caller that
// enqueues 1,000 a call. Each contender is one process with a pool of ten connections, and begins with
// an empty queue.
import { contender } from "../contenders/process.js";
import { interleaved, rateOfAll } from "../measure.js";
import { ratioRow } from "../rows.js";

const PEERS = /** @type {const} */ ([
  ["graphile", "graphile-worker 0.18"],
  ["pg-boss", "pg-boss 10"],
]);
const WAYS = /** @type {const} */ ([
  ["enqueue", "one", "tasks enqueued one by one, 64 callers"],
  ["enqueueAll", "bulk", "tasks enqueued in bulk, 1,000 a call"],
]);

/** @type {import("../measure.js").Question} */
export default {
  question: "Tasks enqueued per second, on durable PostgreSQL",
  async run({ engines, size, progress }) {
    const { server } = await engines.cpu("postgres");
    const counts = { enqueue: size(20_000, 2_000), enqueueAll: size(50_000, 20_000) };
    /** @type {Record<string, Awaited<ReturnType<typeof contender>>>} */
    const sides = {};
    for (const name of ["ours", ...PEERS.map(([name]) => name)])
      sides[name] = await contender(name, await engines.freshDatabase());
    const rows = [];
    for (const [way, id, what] of WAYS) {
      const enqueued = Object.entries(sides).map(([name, side]) => [
        name,
        async () => {
          await side.load(0);
          const cpu = { client: side.cpuUs, server };
          return rateOfAll(cpu, counts[way], () => side[way](counts[way]));
        },
      ]);
      const rates = await interleaved(size(5, 3), Object.fromEntries(enqueued), (text) =>
        progress(`${id}, ${text}`),
      );
      for (const [peer, beside] of PEERS) {
        const target = {
          id: `enqueue-${id}-${peer}`,
          what,
          beside,
          reach: 1.2,
          better: /** @type {const} */ ("higher"),
        };
        rows.push(ratioRow(target, "/s", { ours: rates.ours, [peer]: rates[peer] }));
      }
    }
    await Promise.all(Object.values(sides).map((side) => side.close()));
    return rows;
  },
};

// Acquire and release on the memory store: what the core itself costs.
//
// ratio = our pairs per second / those of async-mutex, one mutex per name, which has neither TTL nor
//         token, 512 callers, each with resources of its own
// cpu   = CPU time of one of our pairs
import { Mutex } from "async-mutex";
import { connect } from "leasehold";
import { ownCpuUs } from "../cpu.js";
import { forEach, interleaved, rateOfAll } from "../measure.js";
import { ratioRow, sidesOf, valueRow } from "../rows.js";

const CALLERS = 512;
/** A round takes half a second: one would be measured while it is still being compiled. */
const WARM_UPS = 2;
const NAMES = 16 * CALLERS;

/** @type {import("../measure.js").Question} */
export default {
  question: "Acquire + release pairs per second of the core, on memory with 512 callers",
  async run({ size, progress }) {
    const leases = await connect("memory:", { defaults: { ttlMs: 30_000 } });
    /** @type {Map<string, Mutex>} */
    const mutexes = new Map();
    const count = size(400_000, 200_000);
    const distinct = Array.from({ length: NAMES }, (_, at) => `pair-${at}`);
    // The same strings again: others would measure how the memory of the names is read.
    const names = Array.from({ length: count }, (_, at) => distinct[at % NAMES] ?? "");
    for (const name of distinct) mutexes.set(name, new Mutex());
    const pairs = (/** @type {(name: string) => Promise<unknown>} */ work) => () =>
      rateOfAll({ client: ownCpuUs }, count, () => forEach(CALLERS, names, work));
    const { ours, mutex } = await interleaved(
      7,
      {
        ours: pairs(async (name) => (await leases.acquire(name)).release()),
        mutex: pairs(async (name) => {
          const release = await /** @type {Mutex} */ (mutexes.get(name)).acquire();
          release();
        }),
      },
      progress,
      WARM_UPS,
    );
    await leases.close();
    return [
      ratioRow(
        {
          id: "pairs-memory-async-mutex",
          what: "pairs on memory",
          beside: "async-mutex",
          reach: 0.5,
          better: "higher",
          gate: true,
        },
        "/s",
        { ours, "async-mutex": mutex },
      ),
      valueRow(
        {
          id: "pairs-memory-cpu",
          what: "CPU of a pair on memory",
          beside: "",
          reach: 4,
          better: "lower",
          gate: true,
        },
        "us",
        ours.map(({ cpuUs }) => cpuUs?.client ?? NaN),
        sidesOf("/s", { ours }),
      ),
    ];
  },
};

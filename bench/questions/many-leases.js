// One process that holds many leases of 300 s on PostgreSQL, renewed every 100 s; of 60 s in a quick run. Then one that
// holds as many on etcd.
//
// cpu   = share of one core that the process uses while it holds 100,000 (PostgreSQL's not counted)
// heap  = bytes of heap per held lease, after garbage collection
// lost  = leases that ended without a revocation
// notified = of revoked leases, the share whose holder was notified before their trusted time
// growth = CPU and heap per lease, of a million leases / of 100,000; in a quick run of 100,000 / of 10,000
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { interleaved, median } from "../measure.js";
import { ratioRow, valueRow } from "../rows.js";

const MANY = fileURLToPath(new URL("../many.js", import.meta.url));
const KEPT = 100_000;
/** A million leases take more than Node's default heap on small machines. */
const FLAGS = [...process.execArgv, "--expose-gc", "--max-old-space-size=8192"];
/** What a renewal on etcd allocates lives until etcd answers: longer than Node's default space for new objects lasts. */
const ETCD_FLAGS = [...FLAGS, "--max-semi-space-size=128"];

/** @type {import("../measure.js").Question} */
export default {
  question: "Many leases held by one process",
  async run({ quick, engines, size, progress }) {
    const [few, many] = quick ? [KEPT / 10, KEPT] : [KEPT, 10 * KEPT];
    const ttlMs = size(300_000, 60_000);
    // Each is renewed at least once.
    const holdMs = ttlMs / 3 + 1_000;
    const hold = (/** @type {number} */ count) => async () =>
      holdMany(await engines.freshDatabase(), count, ttlMs, holdMs);
    const onEtcd = async () => holdMany(await engines.etcd(), many, ttlMs, holdMs, ETCD_FLAGS);
    const measured = await interleaved(
      size(3, 1),
      { few: hold(few), many: hold(many) },
      progress,
      0,
    );
    const all = [...measured.few, ...measured.many];
    const { onEtcd: etcd } = await interleaved(1, { onEtcd }, progress, 0);
    return [
      ...boundsOf(quick ? measured.many : measured.few),
      valueRow(
        {
          id: "many-lost",
          what: "lost of all that were held",
          beside: "none lost",
          reach: 0,
          better: "lower",
        },
        "leases",
        all.map(({ lost }) => lost),
        { held: { value: few + many, unit: "leases" } },
      ),
      growthOf("cpu", "CPU per lease", "us/s", ({ cpuUs }) => cpuUs),
      growthOf("heap", "heap per lease", "bytes", ({ heapBytes }) => heapBytes),
      ...etcdRows(many, etcd),
    ];

    /**
     * @param {string} id
     * @param {string} what
     * @param {string} unit
     * @param {(held: Held) => number} pick
     */
    function growthOf(id, what, unit, pick) {
      const rounds = (/** @type {Held[]} */ all) => all.map((held) => ({ value: pick(held) }));
      const [manyText, fewText] = [many.toLocaleString("en"), few.toLocaleString("en")];
      return ratioRow(
        {
          id: `many-${id}-growth`,
          what: `${what}, ${manyText} held`,
          beside: `${fewText} held`,
          reach: 1.1,
          better: "lower",
        },
        unit,
        { [manyText]: rounds(measured.many), [fewText]: rounds(measured.few) },
      );
    }
  },
};

/**
 * @typedef {object} Held what holding the leases cost
 * @property {number} share of a core
 * @property {number} idleShare the same before the first was acquired
 * @property {number} cpuUs CPU time per lease and second
 * @property {number} heapBytes per lease
 * @property {number} lost without a revocation
 * @property {number} revoked
 * @property {number} notifiedInTime
 */

/**
 * @param {number} count
 * @param {readonly Held[]} rounds
 */
function etcdRows(count, rounds) {
  const held = `${count.toLocaleString("en")} on etcd`;
  return [
    valueRow(
      { id: "many-etcd-cpu", what: `${held} held`, beside: "none held", reach: 1, better: "lower" },
      "of a core",
      rounds.map(({ share, idleShare }) => share - idleShare),
      {},
    ),
    valueRow(
      {
        id: "many-etcd-lost",
        what: `lost of ${held}`,
        beside: "none lost",
        reach: 0,
        better: "lower",
      },
      "leases",
      rounds.map(({ lost }) => lost),
      {},
    ),
    notifiedRow("many-etcd-notified", held, rounds),
  ];
}

/** @param {readonly Held[]} rounds */
function boundsOf(rounds) {
  const held = KEPT.toLocaleString("en");
  const of = (/** @type {(held: Held) => number} */ pick) => rounds.map(pick);
  const figure = (/** @type {(held: Held) => number} */ pick, /** @type {string} */ unit) => ({
    value: median(of(pick)),
    unit,
  });
  const added = (/** @type {Held} */ { share, idleShare }) => share - idleShare;
  const kilobytes = (/** @type {Held} */ { heapBytes }) => heapBytes / 1_024;
  return [
    valueRow(
      { id: "many-cpu", what: `${held} held`, beside: "none held", reach: 0.15, better: "lower" },
      "of a core",
      of(added),
      {
        holding: figure(({ share }) => share, "of a core"),
        "holding none": figure(({ idleShare }) => idleShare, "of a core"),
      },
    ),
    valueRow(
      { id: "many-heap", what: `${held} held`, beside: "none held", reach: 1, better: "lower" },
      "KB of heap a lease",
      of(kilobytes),
      { heap: figure(({ heapBytes }) => heapBytes, "bytes") },
    ),
    notifiedRow("many-notified", held, rounds),
  ];
}

/**
 * @param {string} id
 * @param {string} held
 * @param {readonly Held[]} rounds
 */
function notifiedRow(id, held, rounds) {
  const leases = (/** @type {number[]} */ counts) => ({ value: median(counts), unit: "leases" });
  return valueRow(
    {
      id,
      what: `revoked of ${held}, notified in time`,
      beside: "all revoked",
      reach: 1,
      better: "higher",
    },
    "x",
    rounds.map(({ notifiedInTime, revoked }) => notifiedInTime / revoked),
    {
      revoked: leases(rounds.map(({ revoked }) => revoked)),
      "notified in time": leases(rounds.map(({ notifiedInTime }) => notifiedInTime)),
    },
  );
}

/**
 * @param {string} url
 * @param {number} count
 * @param {number} ttlMs
 * @param {number} holdMs
 * @param {readonly string[]} flags of Node
 * @returns {Promise<Held>}
 */
async function holdMany(url, count, ttlMs, holdMs, flags = FLAGS) {
  const child = fork(MANY, [url, `${count}`, `${ttlMs}`, `${holdMs}`], { execArgv: [...flags] });
  const said = await new Promise((resolve, reject) => {
    child.once("message", resolve);
    child.once("exit", (code) => reject(new Error(`ended with ${code}`)));
  });
  return { ...said, cpuUs: ((said.share - said.idleShare) * 1_000_000) / count };
}

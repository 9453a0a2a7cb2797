// Leases per second on durable PostgreSQL: group commit beside the limit, and beside one statement per call.
//
// ratio = our operations per second / those of the contender. A round acquires new names, renews them,
// releases them and acquires them again. All store at least a row with holder, token and expiry, with
// fsync and synchronous_commit on.
import * as limit from "../contenders/leases/limit.js";
import * as naive from "../contenders/leases/naive.js";
import * as ours from "../contenders/leases/ours.js";
import { namesOf, phasesOf } from "../contenders/leases/phases.js";
import { interleaved, rateOfAll } from "../measure.js";
import { ratioRow } from "../rows.js";

const CALLERS = 512;
/** A phase takes a fraction of a second: one would be measured while it is still being compiled. */
const WARM_UPS = 2;
const LIMIT = "the lean batched statement";
const NAIVE = "one statement per call, 10 connections";

/** @type {readonly [Phase: import("../contenders/leases/phases.js").Phase, what: string, reach: number][]} */
const GATES = [
  ["acquire", "acquire", 0.6],
  ["acquireAgain", "acquire again", 0.5],
  ["renew", "renew", 0.7],
  ["release", "release", 0.65],
];
/** @type {readonly [Phase: import("../contenders/leases/phases.js").Phase, reach: number][]} */
const TARGETS = [
  ["acquire", 4],
  ["renew", 4],
  ["release", 6],
];

/** @type {import("../measure.js").Question} */
export default {
  question: "Leases per second with 512 callers on PostgreSQL, fully durable",
  async run({ engines, size, progress }) {
    const cpu = await engines.cpu("postgres");
    const sides = {
      ours: await ours.open(await engines.freshDatabase(), CALLERS),
      limit: await limit.open(await engines.freshDatabase()),
      naive: await naive.open(await engines.freshDatabase(), CALLERS),
    };
    const counts = {
      ours: size(40_000, 25_000),
      limit: size(40_000, 25_000),
      naive: size(10_000, 3_000),
    };
    const rates = (/** @type {keyof typeof sides} */ name) => (/** @type {number} */ round) =>
      phasesOf(sides[name], namesOf(`r-${round}`, counts[name]), (work) =>
        rateOfAll(cpu, counts[name], work),
      );
    const measured = await interleaved(
      5,
      { ours: rates("ours"), limit: rates("limit"), naive: rates("naive") },
      progress,
      WARM_UPS,
    );
    for (const side of Object.values(sides)) await side.close();
    const better = /** @type {const} */ ("higher");
    const row = (
      /** @type {Omit<import("../rows.js").Target, "better">} */ target,
      /** @type {import("../contenders/leases/phases.js").Phase} */ phase,
      /** @type {"limit" | "naive"} */ peer,
    ) =>
      ratioRow({ ...target, better }, "/s", {
        ours: measured.ours.map((round) => round[phase]),
        [peer]: measured[peer].map((round) => round[phase]),
      });
    return [
      ...GATES.map(([phase, what, reach]) => {
        const id = `limit-${what.replace(" ", "-")}-postgres`;
        return row({ id, what, beside: LIMIT, reach, gate: true }, phase, "limit");
      }),
      ...TARGETS.map(([what, reach]) =>
        row({ id: `lease-${what}-postgres`, what, beside: NAIVE, reach }, what, "naive"),
      ),
    ];
  },
};

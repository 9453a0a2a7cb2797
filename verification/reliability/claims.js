// What the reports of a night must show, each with what was seen and whether that is enough.
import { ATTACKED, ENGINES as FLOODED } from "../overload/engines.js";
import { setsOfStrangers } from "../planted-bugs/report.js";
import { CONFIGURATIONS, VARIANTS } from "../spin/configurations.js";
import { isAsExpected } from "../spin/report.js";
import { add } from "./reports.js";

/** @typedef {import("./reports.js").Report} Report */

/** The engines that are servers of their own: not memory, a stand-in or a Leasehold server. */
const ENGINES = ["postgres", "redis", "etcd", "zookeeper", "consul"];

/** The parts that mutants are counted in. */
const OWN = ["rules", "lease", "election", "fence", "control"];

export const count = (/** @type {number} */ number) => number.toLocaleString("en-US");

/**
 * @param {import("./reports.js").Reports} reports
 * @returns {{ what: string, aim: string, seen: string, holds: boolean, from: string[] }[]}
 */
export function claims(reports) {
  const { simulation, histories, chaos, soak } = reports;
  const planted = reports["planted-bugs"];
  const campaigns = (histories?.["results"] ?? []).filter((/** @type {Report} */ { target }) =>
    [...ENGINES, "http"].includes(target),
  );
  const made = new Set(campaigns.map((/** @type {Report} */ { target }) => target));
  const engines = ENGINES.filter((engine) => made.has(engine));
  const stores = chaos?.["stores"] ?? [];
  const verdicts = (/** @type {string} */ name) =>
    add(campaigns.map((/** @type {Report} */ { verdicts }) => verdicts[name]));
  const total = (/** @type {string} */ name) =>
    add(stores.map((/** @type {Report} */ { takeovers }) => takeovers[name]));
  const expiries = [simulation?.["figures"].expiries ?? 0, chaos?.["expiries"] ?? 0];
  const kinds = faultKinds(reports);
  const seconds = (/** @type {string} */ store) =>
    stores.find((/** @type {Report} */ one) => one["store"] === store)?.seconds ?? 0;
  const shortest = Math.min(...[...ENGINES, "http"].map(seconds));
  const failovers = reports["scenarios"]?.["scenarios"] ?? [];
  const scores = OWN.map((name) => ({
    name,
    score: reports["mutants"]?.["parts"].find((/** @type {Report} */ one) => one["name"] === name)
      ?.score,
  }));
  const overloads = reports["overload"]?.["runs"] ?? [];
  const ranOn = (/** @type {boolean} */ isAttack) => {
    const runs = overloads.filter(
      (/** @type {Report} */ { attack }) => Boolean(attack) === isAttack,
    );
    return new Set(runs.map((/** @type {Report} */ { engine }) => engine));
  };
  const [flooded, attacked] = [ranOn(false), ranOn(true)];
  const lost = add(overloads.map((/** @type {Report} */ one) => one["lost"]));
  const caught =
    planted?.["bugs"].filter((/** @type {Report} */ bug) => bug.killedBy !== null) ?? [];
  const ofStranger = setsOfStrangers(planted?.["bugs"] ?? []).at(-1) ?? [];
  const missed = ofStranger.filter((/** @type {Report} */ { firstMissed }) => firstMissed);
  return [
    {
      what: "simulated worlds",
      aim: "100,000 seeds, 0 violations, every fault and rare branch hit",
      seen: `${count(simulation?.["seeds"] ?? 0)} seeds (${count(simulation?.["events"] ?? 0)} events), ${simulation?.["failures"].length ?? "?"} violations, ${simulation?.["unseen"]?.length ?? "?"} branches missed`,
      holds:
        simulation !== undefined &&
        simulation["seeds"] >= 100_000 &&
        simulation["failures"].length === 0 &&
        simulation["unseen"]?.length === 0,
      from: ["simulation"],
    },
    protocolClaim(reports["spin"]),
    {
      what: "leases that expired under faults",
      aim: "1,000,000",
      seen: `${count(add(expiries))}: ${count(expiries[0])} simulated, ${count(expiries[1])} on real servers`,
      holds: add(expiries) >= 1_000_000,
      from: ["simulation", "chaos"],
    },
    {
      what: "kinds of faults",
      aim: "45",
      seen: `${kinds.simulated.length + kinds.real.length}: ${kinds.simulated.length} simulated, ${kinds.real.length} on real servers and processes`,
      holds: kinds.simulated.length + kinds.real.length >= 45,
      from: ["simulation", "chaos"],
    },
    {
      what: "histories on real stores",
      aim: "2,500 judged on at least 5 engines, Consul among them; none wrong, at most 2 in 1,000 too hard to judge",
      seen: `${count(verdicts("right"))} right, ${verdicts("wrong")} wrong, ${verdicts("unknown")} too hard to judge; ${engines.join(", ")}${made.has("http") ? ", and Leasehold servers on PostgreSQL" : ""}`,
      holds:
        verdicts("right") >= 2_500 &&
        verdicts("wrong") === 0 &&
        verdicts("unknown") * 500 <= verdicts("right") &&
        engines.length >= 5,
      from: ["histories"],
    },
    {
      what: "pauses of holders and workers longer than the TTL",
      aim: "500; no stale write passes the fence, and some pass without one",
      seen: `${count(chaos?.["pausesPastTtl"] ?? 0)}; ${chaos?.["fencedViolations"] ?? "?"} stale writes passed the fence (${count(chaos?.["staleRefused"] ?? 0)} were refused), ${count(chaos?.["unfencedViolations"] ?? 0)} passed without one`,
      holds:
        chaos !== undefined &&
        chaos["pausesPastTtl"] >= 500 &&
        chaos["fencedViolations"] === 0 &&
        chaos["unfencedViolations"] > 0,
      from: ["chaos"],
    },
    {
      what: "takeovers from holders that were killed or stopped",
      aim: "each within the duration of a grant plus the engine's epsilon, or later by what each dead waiter before it may add",
      seen: `${count(total("count"))}, ${add(stores.map((/** @type {Report} */ { takeovers }) => takeovers.overdue.length))} of them late; ${total("behindDeadWaiters")} took longer because of dead waiters`,
      holds:
        stores.length > 0 &&
        stores.every(
          (/** @type {Report} */ { takeovers }) =>
            takeovers.count > 0 && takeovers.overdue.length === 0,
        ),
      from: ["chaos"],
    },
    {
      what: "bugs planted on purpose",
      aim: "40, all caught",
      seen: `${caught.length} of ${planted?.["bugs"].length ?? 0} caught`,
      holds:
        caught.length >= 40 &&
        caught.length === planted?.["bugs"].length &&
        planted["controls"].length > 0 &&
        planted["controls"].every((/** @type {Report} */ { problem }) => problem === null),
      from: ["planted-bugs"],
    },
    {
      what: "bugs of the last author who had seen no test",
      aim: "30, of which the tests as they were caught 27",
      seen: `${ofStranger.length - missed.length} of ${ofStranger.length}`,
      holds: ofStranger.length >= 30 && ofStranger.length - missed.length >= 27,
      from: ["planted-bugs"],
    },
    {
      what: "mutants that unit tests notice",
      aim: "90 % of those in the rules, leases, elections, the fence and keys",
      seen: scores.map(({ name, score }) => `${name} ${score ?? "not run"} %`).join(", "),
      holds: scores.every(({ score }) => score >= 90),
      from: ["mutants"],
    },
    {
      what: "soak",
      aim: "an hour under faults, in which memory, handles and connections do not grow",
      seen: `${Math.round((soak?.["seconds"] ?? 0) / 60)} min, ${count(add(Object.values(soak?.["faults"] ?? {})))} faults, ${soak?.["claims"].filter((/** @type {Report} */ one) => one.holds).length ?? 0} of ${soak?.["claims"].length ?? 0} claims hold`,
      holds: soak !== undefined && soak["seconds"] >= 3_600 && soak["holds"],
      from: ["soak"],
    },
    {
      what: "leases of others while a server is overloaded or attacked",
      aim: "none lost: floods on each of the six stores that a server runs on, attacks on each where it has tenants",
      seen: `${lost} lost in ${overloads.length} runs; floods on ${listed(flooded)}; attacks on ${listed(attacked)}`,
      holds:
        FLOODED.every((engine) => flooded.has(engine)) &&
        ATTACKED.every((engine) => attacked.has(engine)) &&
        lost === 0,
      from: ["overload"],
    },
    {
      what: "chaos and failovers as a whole",
      aim: "every claim holds in 10 minutes on each of six stores; losses are as the guarantees say, with Sentinel and Consul, too",
      seen: `chaos ${holdsOf(chaos)}, at least ${Math.round(shortest / 60)} min each; ${failovers.map((/** @type {Report} */ one) => `${one.name} ${holdsOf(one)}`).join(", ")}`,
      holds:
        chaos?.["holds"] === true &&
        shortest >= 600 &&
        reports["scenarios"]?.["holds"] === true &&
        ["sentinel", "consul"].every((engine) =>
          failovers.some((/** @type {Report} */ { name }) => name.startsWith(engine)),
        ),
      from: ["chaos", "scenarios"],
    },
  ];
}

/** @param {Report | undefined} report */
function protocolClaim(report) {
  /** @type {import("../spin/report.js").Report} */
  const explored = {
    configurations: report?.["configurations"] ?? [],
    variants: report?.["variants"] ?? [],
  };
  const { configurations, variants } = explored;
  const states = count(add(configurations.map((one) => one.states)));
  const kept = configurations.filter(({ broken }) => broken === null).length;
  const failed = variants.filter(({ broken, breaks }) => broken === breaks).length;
  return {
    what: "states of the protocol model",
    aim: "all within the bounds; every property holds, and each broken variant breaks its own",
    seen: `${states}: ${kept} of ${configurations.length} configurations keep every property, ${failed} of ${variants.length} variants fail as they must`,
    holds:
      configurations.length >= CONFIGURATIONS.length &&
      variants.length >= VARIANTS.length &&
      isAsExpected(explored),
    from: ["spin"],
  };
}

const listed = (/** @type {Set<string>} */ names) => [...names].join(", ") || "no store";

const holdsOf = (/** @type {Report | undefined} */ report) =>
  report === undefined ? "not run" : report["holds"] ? "holds" : "FAILS";

/**
 * Each kind that happened, and how often.
 * @param {import("./reports.js").Reports} reports
 */
export function faultKinds({ simulation, chaos }) {
  const kindsOf = (/** @type {Record<string, number>} */ faults = {}) =>
    Object.entries(faults)
      .filter(([, times]) => times > 0)
      .map(([kind, times]) => ({ kind, times }));
  return { simulated: kindsOf(simulation?.["faults"]), real: kindsOf(chaos?.["faults"]) };
}

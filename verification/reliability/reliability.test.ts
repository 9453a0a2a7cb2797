/** What docs/reliability.md claims: it is what the kept reports say, and no poorer report would do. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = new URL("../../", import.meta.url);
const script = (name: string) => new URL(`verification/reliability/${name}`, root).href;

type Report = Record<string, any>;
type Runs = Map<string, Report[]>;
interface Claim {
  readonly what: string;
  readonly holds: boolean;
}
const { readReports, sourcesOf } = (await import(script("reports.js"))) as {
  readReports(folder: string): Runs;
  sourcesOf(runs: Runs): string[];
};
const { pageOf } = (await import(script("page.js"))) as {
  pageOf(runs: Runs, before: string): { readonly text: string; readonly judged: readonly Claim[] };
};

const page = readFileSync(new URL("docs/reliability.md", root), "utf8");
const kept = () => readReports(fileURLToPath(new URL("docs/reliability/", root)));
const short = (runs: Runs) =>
  pageOf(runs, page).judged.flatMap(({ what, holds }) => (holds ? [] : [what]));

it("is what the kept reports say", () => {
  const { text, judged } = pageOf(kept(), page);
  expect(text).toBe(page);
  expect(judged).toHaveLength(13);
  expect(short(kept())).toEqual([]);
});

it("holds nothing of a night that did not come to its reports", () => {
  expect(short(new Map())).toHaveLength(13);
});

const isOfSentinel = ({ name }: Report) => name.startsWith("sentinel");

const WORLDS = "simulated worlds";
const STATES = "states of the protocol model";
const HISTORIES = "histories on real stores";
const PAUSES = "pauses of holders and workers longer than the TTL";
const TAKEOVERS = "takeovers from holders that were killed or stopped";
const PLANTED = "bugs planted on purpose";
const STRANGERS = "bugs of the last author who had seen no test";
const MUTANTS = "mutants that unit tests notice";
const OVERLOADS = "leases of others while a server is overloaded or attacked";
const WHOLE = "chaos and failovers as a whole";

it.each<[string, string, (first: Report, ...others: Report[]) => void, string[]]>([
  ["a violation in one world", "simulation", (one) => one.failures.push({ seed: 1 }), [WORLDS]],
  [
    "too few worlds",
    "simulation",
    (...all) => {
      for (const one of all) one["seeds"] = 7_000;
    },
    [WORLDS],
  ],
  [
    "too few expiries",
    "simulation",
    (one) => (one.figures.expiries = 0),
    ["leases that expired under faults"],
  ],
  ["a wrong history", "histories", ({ results }) => (results[0].verdicts.wrong = 1), [HISTORIES]],
  [
    "histories on memory",
    "histories",
    ({ results }) => (results[0].target = "memory"),
    [HISTORIES],
  ],
  ["a stale write past the fence", "chaos", (one) => (one.fencedViolations = 1), [PAUSES]],
  ["a late takeover", "chaos", ({ stores }) => stores[0].takeovers.overdue.push({}), [TAKEOVERS]],
  ["a claim of chaos that fails", "chaos", (one) => (one.holds = false), [WHOLE]],
  ["a failover that loses more", "scenarios", (one) => (one.holds = false), [WHOLE]],
  ["a broken property", "spin", (one) => (one.configurations[0].broken = "IN_ORDER"), [STATES]],
  ["a variant that breaks nothing", "spin", (one) => (one.variants[0].broken = null), [STATES]],
  ["a configuration that was not explored", "spin", (one) => one.configurations.pop(), [STATES]],
  ["a bug that nothing caught", "planted-bugs", ({ bugs }) => (bugs[3].killedBy = null), [PLANTED]],
  [
    "four that the tests missed at first",
    "planted-bugs",
    (_, { bugs }) => {
      for (const bug of bugs.slice(-4)) bug.firstMissed = true;
    },
    [STRANGERS],
  ],
  [
    "a check that fails by itself",
    "planted-bugs",
    ({ controls }) => (controls[0].problem = "failed"),
    [PLANTED],
  ],
  ["a part without its mutants", "mutants", ({ parts }) => parts.splice(0, 1), [MUTANTS]],
  ["mutants that survive", "mutants", ({ parts }) => (parts[0].score = 89.9), [MUTANTS]],
  ["a lease lost to an attack", "overload", ({ attacks }) => (attacks[1].lost = 1), [OVERLOADS]],
  ["a store without attacks", "overload", ({ attacks }) => attacks.splice(0), [OVERLOADS]],
  ["a store without a flood", "overload", (_, flood) => (flood["engine"] = "http"), [OVERLOADS]],
  ["chaos for a moment", "chaos", ({ stores }) => (stores[0].seconds = 60), [WHOLE]],
  [
    "no Sentinel",
    "scenarios",
    ({ scenarios }) => (scenarios.find(isOfSentinel).name = "failover"),
    [WHOLE],
  ],
  ["a soak cut short", "soak", (one) => (one.seconds = 3_000), ["soak"]],
  ["a soak that grows", "soak", (one) => (one.holds = false), ["soak"]],
])("does not let pass %s", (_, name, spoil, expected) => {
  const runs = kept();
  const [first, ...others] = runs.get(name)!;
  spoil(first!, ...others);
  expect(short(runs)).toEqual(expected);
});

it("does not add up reports of different sources", () => {
  const runs = kept();
  expect(sourcesOf(runs)).toHaveLength(1);
  runs.get("soak")![0]!["sources"] = "0123456789abcdef";
  expect(sourcesOf(runs)).toHaveLength(2);
});

it("takes no seed twice", () => {
  const runs = kept();
  const [first] = runs.get("simulation")!;
  runs.get("simulation")!.push(first!);
  expect(() => short(runs)).toThrow("ran twice");
});

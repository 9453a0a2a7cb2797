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
const { readReports } = (await import(script("reports.js"))) as {
  readReports(folder: string): Runs;
};
const { pageOf } = (await import(script("page.js"))) as {
  pageOf(runs: Runs, before: string): { readonly text: string; readonly judged: readonly Claim[] };
};

const page = readFileSync(new URL("docs/reliability.md", root), "utf8");
const kept = () => readReports(fileURLToPath(new URL("docs/reliability/", root)));
const short = (runs: Runs) =>
  pageOf(runs, page).judged.flatMap(({ what, holds }) => (holds ? [] : [what]));

it("is what the kept reports say, and all of it holds", () => {
  const { text, judged } = pageOf(kept(), page);
  expect(text).toBe(page);
  expect(judged).toHaveLength(10);
  expect(short(kept())).toEqual([]);
});

it("holds nothing of a night that did not come to its reports", () => {
  expect(short(new Map())).toHaveLength(10);
});

const WORLDS = "simulated worlds";
const STATES = "states of the protocol model";
const HISTORIES = "histories on real stores";
const PAUSES = "pauses of holders and workers longer than the TTL";
const TAKEOVERS = "takeovers from holders that were killed or stopped";
const PLANTED = "bugs planted on purpose";
const WHOLE = "chaos and failovers as a whole";

it.each<[string, string, (report: Report) => void, string[]]>([
  ["a violation in one world", "simulation", (one) => one.failures.push({ seed: 1 }), [WORLDS]],
  ["too few worlds", "simulation", (one) => (one.seeds = 1), [WORLDS]],
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
    "a check that fails by itself",
    "planted-bugs",
    ({ controls }) => (controls[0].problem = "failed"),
    [PLANTED],
  ],
  ["a soak cut short", "soak", (one) => (one.seconds = 3_000), ["soak"]],
  ["a soak that grows", "soak", (one) => (one.holds = false), ["soak"]],
])("does not let pass %s", (_, name, spoil, expected) => {
  const runs = kept();
  spoil(runs.get(name)![0]!);
  expect(short(runs)).toEqual(expected);
});

it("takes no seed twice", () => {
  const runs = kept();
  const [first] = runs.get("simulation")!;
  runs.get("simulation")!.push(first!);
  expect(() => short(runs)).toThrow("ran twice");
});

/** Each alert that the project ships has a section in docs/runbooks.md, to which its rule links, and a row of the table. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { repositoryOf } from "../../scripts/release/facts.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(root + path, "utf8");

interface Rule {
  readonly alert: string;
  readonly annotations: Readonly<Record<string, string>>;
}
interface Rules {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
}

const PARTS = ["**What it means.** ", "**What to look at.** ", "**What to do.** "];
const PAGE = `${repositoryOf(JSON.parse(read("package.json")))}/blob/main/docs/runbooks.md`;

/** What the rules and the two pages don't agree on. */
function problemsOf(rules: string, runbooks: string, observability: string): string[] {
  const alerts = (parse(rules) as Rules).groups.flatMap((group) => group.rules);
  const [, part = ""] = /^## Alerts$([^]*?)(?=^## |$(?![^]))/m.exec(runbooks) ?? [];
  const sections = new Map(
    part
      .split(/^### /m)
      .slice(1)
      .map((section): [string, string] => [section.split("\n", 1)[0] ?? "", section]),
  );
  const rows = [...observability.matchAll(/^\| `(Leasehold\w+)` \|/gm)].map(
    ([, name = ""]) => name,
  );
  const names = alerts.map(({ alert }) => alert);
  const problems: string[] = [];
  for (const { alert, annotations } of alerts) {
    const section = sections.get(alert);
    if (section === undefined) problems.push(`${alert} has no section`);
    for (const begin of PARTS) {
      if (section?.split("\n\n").filter((text) => text.startsWith(begin)).length === 0) {
        problems.push(`${alert} does not say: ${begin.replaceAll("*", "").trim()}`);
      }
    }
    const url = `${PAGE}#${alert.toLowerCase()}`;
    if (annotations["runbook_url"] !== url) problems.push(`${alert} does not link to ${url}`);
    if (!rows.includes(alert)) problems.push(`${alert} has no row in the table`);
  }
  const unknown = [...sections.keys(), ...rows].filter((name) => !names.includes(name));
  return [...problems, ...unknown.map((name) => `${name} is no alert`)];
}

const given = {
  rules: read("deploy/prometheus/alerts.yml"),
  runbooks: read("docs/runbooks.md"),
  observability: read("docs/observability.md"),
};
const judge = ({ rules, runbooks, observability }: typeof given) =>
  problemsOf(rules, runbooks, observability);

it("has a section for each alert and no other", () => {
  expect(given.rules.match(/alert: /g)?.length).toBeGreaterThan(5);
  expect(judge(given)).toEqual([]);
});

describe("finds", () => {
  const alert = "LeaseholdLongHeld";
  it.each<[string, Partial<typeof given>, string]>([
    [
      "an alert without a section",
      { runbooks: given.runbooks.replace(`### ${alert}`, "### LeaseholdOther") },
      `${alert} has no section`,
    ],
    [
      "a section without an alert",
      { runbooks: given.runbooks.replace(`### ${alert}`, "### LeaseholdOther") },
      "LeaseholdOther is no alert",
    ],
    [
      "a section without one of its parts",
      { runbooks: given.runbooks.replace(/(?<=### LeaseholdLongHeld[^]*?)\*\*What to do/, "**Or") },
      `${alert} does not say: What to do.`,
    ],
    [
      "a rule that links elsewhere",
      { rules: given.rules.replace(`#${alert.toLowerCase()}`, "#other") },
      `${alert} does not link to ${PAGE}#leaseholdlongheld`,
    ],
    [
      "an alert without a row",
      { observability: given.observability.replace(`| \`${alert}\` |`, "| other |") },
      `${alert} has no row in the table`,
    ],
  ])("%s", (_, changed, problem) => {
    expect(judge({ ...given, ...changed })).toContain(problem);
  });
});

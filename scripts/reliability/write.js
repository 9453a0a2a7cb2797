// Writes the figures of a night's reports into docs/reliability.md, between its marks.
//
//   npm run nightly && npm run reliability -- nightly
//   npm run reliability -- docs/reliability              from the reports that are kept
//
// Ends with 1 if a claim does not hold; it is written down all the same.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { STEPS } from "../nightly/steps.js";
import { claims, count, faultKinds } from "./claims.js";
import { joined, readReports } from "./reports.js";

const FILE = fileURLToPath(new URL("../../docs/reliability.md", import.meta.url));
const BEGIN = "<!-- Made by npm run reliability: from here -->\n";
const END = "<!-- to here -->\n";

const [folder = "nightly"] = process.argv.slice(2);
const runs = readReports(folder);
if ([...runs.values()].flat().length === 0) {
  process.stderr.write(`no report in ${folder}: npm run nightly -- --out ${folder}\n`);
  process.exit(64);
}

const reports = joined(runs);
const judged = claims(reports);
const before = readFileSync(FILE, "utf8");
const [head, rest] = before.split(BEGIN);
const [, tail] = rest?.split(END) ?? [];
if (tail === undefined) throw new Error("docs/reliability.md has lost its marks");
writeFileSync(FILE, `${head}${BEGIN}\n${figures()}\n${END}${tail}`);
for (const { what, seen, holds } of judged)
  console.log(`${holds ? "ok   " : "SHORT"} ${what}: ${seen}`);
process.exitCode = judged.every(({ holds }) => holds) ? 0 : 1;

function figures() {
  return (
    [
      table(
        ["what", "aim", "seen", "reached"],
        judged.map(({ what, aim, seen, holds }) => [what, aim, seen, holds ? "yes" : "**no**"]),
      ),
      "From these runs:",
      table(
        ["run", "when", "commit", "machine", "command"],
        STEPS.flatMap(({ name }) => originsOf(name)),
      ),
      "### Takeovers",
      'From the last renewal that counts (or the acquire) of a holder that was killed or stopped, to the answer that gives\nits resource to the next one, in milliseconds. "Bound" is the life of a grant and the engine\'s epsilon; "behind the\ndead" are those beyond it that had waiters before them which died in line, and kept what is said of these.',
      table(
        [
          "store",
          "engine",
          "takeovers",
          "p50",
          "p99",
          "max",
          "life",
          "epsilon",
          "bound",
          "behind the dead",
        ],
        (reports["chaos"]?.["stores"] ?? []).map(
          (/** @type {any} */ { store, version, takeovers, lifeMs, epsilonMs }) => [
            ...[store, version, takeovers.count, takeovers.p50, takeovers.p99, takeovers.max],
            ...[lifeMs, epsilonMs, takeovers.bound, takeovers.behindDeadWaiters],
          ],
        ),
      ),
      "### Faults",
      kindsOf("On real servers and processes", faultKinds(reports).real),
      kindsOf("In the simulation", faultKinds(reports).simulated),
    ].join("\n\n") + "\n"
  );
}

function kindsOf(
  /** @type {string} */ where,
  /** @type {{ kind: string, times: unknown }[]} */ kinds,
) {
  const listed = kinds.map(({ kind, times }) => `${kind} ${count(Number(times))}`);
  return `${where} (${kinds.length}): ${listed.join("; ")}.`;
}

function originsOf(/** @type {string} */ name) {
  const all = runs.get(name) ?? [];
  if (all.length === 0) return [[name, "not run", "", "", ""]];
  return all.map(({ date, commit, machine, node, command, note }) => [
    ...[name, date.slice(0, 10), `\`${commit}\``, `${machine}, Node ${node}`],
    `\`${command}\`` + (note ? ` (${note})` : ""),
  ]);
}

function table(/** @type {string[]} */ titles, /** @type {unknown[][]} */ rows) {
  const line = (/** @type {unknown[]} */ cells) =>
    `| ${cells.map((cell) => `${cell}`.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(titles), line(titles.map(() => "---")), ...rows.map(line)].join("\n");
}

// The part of docs/reliability.md that is made of reports.
import { STEPS } from "../nightly/steps.js";
import { table } from "../support/markdown.js";
import { claims, count, faultKinds } from "./claims.js";
import { joined } from "./reports.js";

const BEGIN = "<!-- Made by npm run reliability: from here -->\n";
const END = "<!-- to here -->\n";

/**
 * @param {Map<string, import("./reports.js").Report[]>} runs as {@link readReports} gives them
 * @param {string} before the page as it stands
 * @returns the page with their figures between its marks, and what each claim came to
 */
export function pageOf(runs, before) {
  const reports = joined(runs);
  const judged = claims(reports);
  const [head, rest] = before.split(BEGIN);
  const [, tail] = rest?.split(END) ?? [];
  if (tail === undefined) throw new Error("docs/reliability.md has lost its marks");
  const text = `${head}${BEGIN}\n${figures(runs, reports, judged)}\n${END}${tail}`;
  return { text, judged };
}

/**
 * @param {Map<string, import("./reports.js").Report[]>} runs
 * @param {import("./reports.js").Reports} reports
 * @param {ReturnType<typeof claims>} judged
 */
function figures(runs, reports, judged) {
  return (
    [
      table(
        ["what", "aim", "seen", "reached"],
        judged.map(({ what, aim, seen, holds }) => [what, aim, seen, holds ? "yes" : "**no**"]),
      ),
      "From these runs:",
      table(
        ["run", "when", "commit", "machine", "command"],
        STEPS.flatMap(({ name }) => originsOf(name, runs.get(name) ?? [])),
      ),
      "### Takeovers",
      'The time from the last renewal that counts (or the acquire) of a holder that was killed or stopped, to the answer\nthat grants its resource to the next holder, in milliseconds. "Bound" is the life of a grant plus the engine\'s\nepsilon. "Behind the dead" counts takeovers beyond the bound that followed dead waiters, within what is promised for\nthem.',
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
            store,
            version,
            takeovers.count,
            takeovers.p50,
            takeovers.p99,
            takeovers.max,
            lifeMs,
            epsilonMs,
            takeovers.bound,
            takeovers.behindDeadWaiters,
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

function originsOf(/** @type {string} */ name, /** @type {import("./reports.js").Report[]} */ all) {
  if (all.length === 0) return [[name, "not run", "", "", ""]];
  return all.map(({ date, commit, machine, node, command, note }) => [
    name,
    date.slice(0, 10),
    `\`${commit}\``,
    `${machine}, Node ${node}`,
    `\`${command}\`` + (note ? ` (${note})` : ""),
  ]);
}

// The part of docs/reliability.md that is made of reports.
import { STEPS } from "../nightly/steps.js";
import { table } from "../support/markdown.js";
import { claims, count, faultKinds } from "./claims.js";
import { joined } from "./reports.js";

const BEGIN = "<!-- Written by verification/reliability/write.js: from here -->\n";
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
      "The figures come from these runs:",
      table(
        ["run", "when", "commit", "machine", "command"],
        STEPS.flatMap(({ name }) => originsOf(name, runs.get(name) ?? [])),
      ),
      "### Takeovers",
      "A holder was killed or stopped. The times are from its last effective renewal (or its acquire) to the answer that grants its\nresource to the next holder, in milliseconds. The bound is the duration of a grant plus the engine's epsilon. The last column\ncounts takeovers that took longer than the bound because of dead waiters, and not longer than the guarantees allow for these.",
      table(
        [
          "store",
          "engine",
          "takeovers",
          "p50",
          "p99",
          "max",
          "duration",
          "epsilon",
          "bound",
          "after dead waiters",
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
  // Its parts may be older than the report that keeps them.
  const runs =
    name === "mutants"
      ? all.flatMap(({ parts }) =>
          parts.map((part) => ({ ...part, command: `npm run verify -- mutants ${part.name}` })),
        )
      : all;
  return runs.map(({ date, commit, machine, node, command, note }) => [
    name,
    date.slice(0, 10),
    `\`${commit}\``,
    `${machine}, Node ${node}`,
    `\`${command}\`` + (note ? ` (${note})` : ""),
  ]);
}

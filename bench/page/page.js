// The parts of docs/performance.md that are made of reports. A gate or an aim is reached if every run reaches it.
import { table } from "../../verification/support/markdown.js";
import { isReached, ratioText, reachText, sideText, spreadText } from "../rows.js";

/** @typedef {import("../rows.js").Row & { question: string }} Row */
/** @typedef {Record<string, any> & { rows: Row[] }} Report what `npm run bench -- --json FILE` writes */
/**
 * A row in all runs.
 * @typedef {object} Line
 * @property {Row} row as the last run has it
 * @property {(Row | undefined)[]} runs
 * @property {"reached" | "missed" | "not measured" | ""} verdict empty: it has no bound
 * @property {string[]} seen the ratio of each run
 */

const PROCESSES = ["client", "server", "database"];
/** A section on rows that may be missed: `### Title {{rows ID ID}}`. */
const ROWS = / \{\{rows ([^}]+)\}\}$/m;

/**
 * @param {readonly Report[]} reports one for each run
 * @param {string} template
 * @returns the page, its gates, and the missed rows on which the template has no section
 */
export function pageOf(reports, template) {
  const lines = linesOf(reports);
  const missed = lines.filter(({ verdict }) => verdict === "missed");
  const gates = lines.filter(({ row }) => row.gate);
  const aims = lines.filter(({ row }) => !row.gate);
  const sections = template.split(/^(?=##+ )/m);
  const explained = sections.flatMap(idsOf);
  const unexplained = missed.filter(({ row }) => !explained.includes(row.id));
  /** @type {Record<string, string>} */
  const parts = {
    gatesReached: reachedOf(gates),
    gates: ratios(gates, reports.length),
    aimsReached: reachedOf(aims),
    aims: ratios(aims, reports.length),
    unexplained: listed("No cause is known yet:", unexplained),
    figures: figures(lines),
    runs: runsOf(reports),
    inRuns:
      reports.length === 1
        ? "in the one run that is kept"
        : reports.length === 2
          ? "in both runs"
          : `in all ${reports.length} runs`,
  };
  const text = sections
    .map((section) => explain(section, missed))
    .join("")
    .replaceAll(/\{\{(\w+)\}\}/g, (_, name) => parts[name])
    .replaceAll(/\n{3,}/g, "\n\n");
  return { text, gates, unexplained };
}

/**
 * @param {readonly Report[]} reports
 * @returns {Line[]}
 */
function linesOf(reports) {
  // A quick run has other sizes, so that a row with the same id may be about something else.
  const same = (/** @type {Row} */ a, /** @type {Row} */ b) => a.id === b.id && a.what === b.what;
  const all = reports.flatMap(({ rows }) => rows);
  const latest = new Map(all.map((row) => [`${row.id} ${row.what}`, row]));
  return [...latest.values()].map((row) => {
    const runs = reports.map(({ rows }) =>
      rows.find((one) => same(one, row) && Number.isFinite(one.ratio)),
    );
    const seen = runs.map((one) => (one ? ratioText(one) : "not measured"));
    const reached = runs.map((one) => one && isReached({ ...one, reach: row.reach }));
    /** @type {Line["verdict"]} */
    let verdict = reached.every(Boolean) ? "reached" : "not measured";
    if (reached.includes(false)) verdict = "missed";
    if (row.reach === null) verdict = "";
    return { row, runs, verdict, seen };
  });
}

function reachedOf(/** @type {readonly Line[]} */ lines) {
  const bounded = lines.filter(({ verdict }) => verdict !== "");
  return `${bounded.filter(({ verdict }) => verdict === "reached").length} of ${bounded.length}`;
}

/**
 * @param {readonly Line[]} lines
 * @param {number} count of runs
 */
function ratios(lines, count) {
  const rows = lines.map(({ row, runs, verdict, seen }) => [
    row.question,
    row.what,
    row.beside,
    reachText(row),
    ...runs.map((one, at) => (one ? `${seen[at]} (${spreadText(one)})` : seen[at])),
    verdict === "reached" ? verdict : verdict && `**${verdict}**`,
  ]);
  const numbered = Array.from({ length: count }, (_, at) => `run ${at + 1}`);
  return table(
    ["question", "measured", "compared with", "required", ...numbered, "result"],
    thinned(rows),
  );
}

/** What the contenders did, and the CPU time of an operation. */
function figures(/** @type {readonly Line[]} */ lines) {
  /** @type {Map<string, Map<string, string[]>>} by what was measured, and by contender: rows may share one */
  const groups = new Map();
  for (const { row, runs } of lines) {
    const measured = `${row.question} ${row.what}`;
    const group = groups.get(measured) ?? new Map();
    groups.set(measured, group);
    for (const name of Object.keys(row.sides)) {
      const joined = (
        /** @type {(side: import("../rows.js").Side) => string | undefined} */ text,
      ) => runs.flatMap((one) => (one?.sides[name] && text(one.sides[name])) ?? []).join("; ");
      const figure = joined(({ value, unit }) => sideText({ value, unit }));
      const cpu = PROCESSES.map((of) => joined(({ cpuUs }) => cpuUs?.[of]?.toFixed(1)));
      if (!group.has(name)) group.set(name, [row.question, row.what, name, figure, ...cpu]);
    }
  }
  const rows = [...groups.values()].flatMap((group) => [...group.values()]);
  const titles = PROCESSES.map((name) => `${name}, us`);
  return table(["question", "measured", "of", "figure", ...titles], thinned(rows));
}

/** Leaves out a question, and what was measured, if the row above has the same. */
function thinned(/** @type {(string | undefined)[][]} */ rows) {
  return rows.map(([question, measured, ...cells], at) => {
    const [above, measuredAbove] = rows[at - 1] ?? [];
    if (question !== above) return [question, measured, ...cells];
    return ["", measured === measuredAbove ? "" : measured, ...cells];
  });
}

function runsOf(/** @type {readonly Report[]} */ reports) {
  const titles = ["run", "when (UTC)", "sizes", "commit", "machine", "load", "command"];
  const rows = reports.map((report, at) => {
    const { date, minutes, commit, node, machine, load, quick, unanswered, command } = report;
    const begin = new Date(Date.parse(date) - minutes * 60_000).toISOString();
    return [
      at + 1,
      `${begin.slice(0, 10)}, ${begin.slice(11, 16)} to ${date.slice(11, 16)}`,
      [
        quick ? "quick" : "full",
        ...(command.includes("--only") ? ["not all questions"] : []),
        ...unanswered.map((/** @type {string} */ name) => `**${name} failed**`),
      ].join(", "),
      `\`${commit}\``,
      `${machine}, Node ${node}`,
      load.map((/** @type {number} */ one) => one.toFixed(1)).join(" to "),
      `\`${command}\``,
    ];
  });
  return table(titles, rows);
}

function idsOf(/** @type {string} */ section) {
  return ROWS.exec(section)?.[1]?.split(" ") ?? [];
}

/**
 * Begins a section on rows with those that are missed. Without any, it is left out.
 * @param {string} section
 * @param {readonly Line[]} missed
 */
function explain(section, missed) {
  const ids = idsOf(section);
  const own = missed.filter(({ row }) => ids.includes(row.id));
  if (ids.length > 0 && own.length === 0) return "";
  return section.replace(ROWS, () => listed("\n", own));
}

/**
 * @param {string} title
 * @param {readonly Line[]} lines
 */
function listed(title, lines) {
  const items = lines.map(({ row, seen }) => {
    const what = row.beside === "" ? row.what : `${row.what}, beside ${row.beside}`;
    return `- ${what}: ${seen.join("; ")} (reach ${reachText(row)})`;
  });
  return items.length === 0 ? "" : [title, ...items].join("\n");
}

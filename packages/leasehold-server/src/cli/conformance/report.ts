/** Reports a run of the suite, as text and as JSON. */
import { inspect } from "node:util";
import type { Capabilities } from "leasehold/internal";
import { formatDuration } from "leasehold/internal";
import { colors } from "../output.js";
import { plainTable } from "../table.js";
import { differenceIn } from "./expect.js";
import type { Result } from "./runner.js";

export interface Report {
  /** A URL without its password, or a file. */
  readonly store: string;
  /** The command that repeats the run. */
  readonly command: string;
  readonly capabilities: Capabilities;
  readonly results: readonly Result[];
  /** How many tests there were to run: more than results where the run was interrupted. */
  readonly total: number;
  /** The section that was chosen; null if all were. */
  readonly section: string | null;
  /** What the choice leaves out. */
  readonly others: { readonly sections: number; readonly tests: number };
  readonly ms: number;
}

const COLORS = { pass: colors.green, fail: colors.red, "not applicable": colors.dim } as const;

const MOST_CAUSES = 5;

/** Whether everything that was chosen has run and nothing failed. */
export function passes({ results, total }: Report): boolean {
  return results.length === total && results.every(({ verdict }) => verdict !== "fail");
}

/** Null if the tests that ran pass, and others have not run. */
function conforms(report: Report): boolean | null {
  return passes(report) && report.others.tests > 0 ? null : passes(report);
}

export function toJson(report: Report): object {
  const { command: _, results, total, others, ...rest } = report;
  return {
    ...rest,
    conforms: conforms(report),
    ...countsOf(results),
    notRun: total - results.length + others.tests,
    results: results.map((result) =>
      result.verdict === "fail"
        ? { ...result, error: errorText(result.error), alone: aloneOf(report, result) }
        : result,
    ),
  };
}

/** @param options.verbose adds stacks to failures */
export function toText(report: Report, { verbose }: { verbose: boolean }): string {
  const { results, store, capabilities } = report;
  const table = plainTable(["verdict", "time", "property"]);
  for (const result of results) {
    const { verdict, section, name, ms } = result;
    const reason = verdict === "not applicable" ? colors.dim(` (${result.reason})`) : "";
    const time = verdict === "not applicable" ? "" : formatDuration(ms);
    table.push([COLORS[verdict](verdict), time, `${section}: ${name}${reason}`]);
  }
  const failures = results.filter((result) => result.verdict === "fail");
  return [
    table.toString().replace(/ +$/gm, ""),
    ...failures.flatMap((result) => {
      const { section, name, error } = result;
      const said = verbose && error instanceof Error ? [error.stack ?? ""] : messagesOf(error);
      return [
        "",
        `${colors.red("FAILED")} ${section}: ${name}`,
        ...[...said, ...differenceIn(error)].map((text) => text.replace(/^/gm, "  ")),
        `  alone: ${aloneOf(report, result)}`,
      ];
    }),
    "",
    `${store} declares ${declared(capabilities)}`,
    summaryOf(report),
  ].join("\n");
}

function summaryOf(report: Report): string {
  const { results, total, ms } = report;
  const { passed, failed, notApplicable } = countsOf(results);
  const counts = `${passed} passed, ${failed} failed, ${notApplicable} not applicable`;
  const missing = total - results.length;
  const interrupted = missing > 0 ? `; interrupted, ${missing} have not run` : "";
  const color = passes(report) ? colors.green : colors.red;
  const { section, others } = report;
  const part =
    section !== null && passes(report)
      ? `\nsection "${section}" passes; ${others.sections} sections did not run, so this is no proof of conformance`
      : "";
  return color(`${counts} in ${formatDuration(ms)}${interrupted}`) + part;
}

function countsOf(results: readonly Result[]) {
  const count = (verdict: Result["verdict"]) =>
    results.filter((result) => result.verdict === verdict).length;
  return { passed: count("pass"), failed: count("fail"), notApplicable: count("not applicable") };
}

function declared({ clock, grants, ttl, queue, watch, epsilonMs }: Capabilities): string {
  const { minMs, maxMs, stepMs } = ttl;
  const ttls = `ttl ${minMs} to ${maxMs} ms in steps of ${stepMs}`;
  return `clock: ${clock}, grants: ${grants}, ${ttls}, queue: ${queue}, watch: ${watch}, epsilon: ${epsilonMs} ms`;
}

function aloneOf({ command }: Report, { section }: Result): string {
  return `${command} --section ${/\s/.test(section) ? `"${section}"` : section}`;
}

function errorText(error: unknown): string {
  return [...messagesOf(error), ...differenceIn(error)].join("\n");
}

/** The messages of the error and of its causes. */
function messagesOf(error: unknown): string[] {
  const found: string[] = [];
  for (let at = error; at instanceof Error && found.length < MOST_CAUSES; at = at.cause) {
    found.push(found.length === 0 ? at.message : `caused by: ${at.message}`);
  }
  return found.length > 0 ? found : [inspect(error)];
}

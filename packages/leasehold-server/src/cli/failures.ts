/** Turns a failure into a message and an exit code. */

import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { CommanderError } from "commander";
import type { ErrorCode, LeaseholdError } from "leasehold";
import { describe, isError, propertyOf, reasonOf } from "leasehold/internal/describe";
import { EXIT } from "./exit-codes.js";
import { OutputError } from "./output.js";
import { indented, safeJson, safeLayout } from "./terminal.js";

/** A mistake in the command line, or in a file that it names. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Ends the process with this code and prints nothing more. */
export class Exit extends Error {
  override readonly name = "Exit";
  constructor(readonly code: number) {
    super(`exit ${code}`);
  }
}

const CODES: Readonly<Partial<Record<ErrorCode, number>>> = {
  INVALID_OPTION: EXIT.usage,
  STORE_UNAVAILABLE: EXIT.storeUnavailable,
  STORE_MISCONFIGURED: EXIT.misconfigured,
  LEASE_UNAVAILABLE: EXIT.leaseUnavailable,
  LEASE_LOST: EXIT.leaseLost,
};

export interface Failure {
  readonly exitCode: number;
  /** For stderr; empty if nothing is left to report. */
  readonly text: string;
}

/** @param options.verbose adds the stack and the causes */
export function describeFailure(
  error: unknown,
  options: { verbose: boolean; json: boolean },
): Failure {
  if (error instanceof Exit) return { exitCode: error.code, text: "" };
  if (error instanceof OutputError && error.isQuiet) return { exitCode: error.exitCode, text: "" };
  if (error instanceof CommanderError) {
    // The codes of help and version are 0. Help is text, and so is what Commander has printed without --json.
    const isSaid = error.code.startsWith("commander.help") || !options.json;
    if (error.exitCode === 0) return { exitCode: 0, text: "" };
    if (isSaid) return { exitCode: EXIT.usage, text: "" };
  }
  const { code, message, docs, exitCode } = summary(error);
  if (options.json) {
    return { exitCode, text: safeJson({ error: { code, message, docs } }) };
  }
  const lines = [`leasehold: ${code === null ? "" : `${code}: `}${indented(message)}`];
  if (docs !== null) lines.push(`  what to do: ${docs}`);
  if (options.verbose) lines.push(indented(describe(error)));
  return { exitCode, text: safeLayout(lines.join("\n")) };
}

function summary(error: unknown) {
  if (isLeaseholdError(error)) {
    const { code, message } = error;
    const docs = installed(error.docs);
    return { code, message: withFlags(message), docs, exitCode: CODES[code] ?? EXIT.failed };
  }
  if (error instanceof CommanderError) {
    const message = error.message.replace(/^error: /, "");
    return { code: null, message, docs: null, exitCode: EXIT.usage };
  }
  const exitCode = exitCodeOf(error);
  const message = reasonOf(error);
  return { code: null, message, docs: null, exitCode };
}

/** The library names a file of the user's project, but this command may be installed elsewhere, for all users. */
function installed(docs: string): string {
  const folder = join(dirname(createRequire(import.meta.url).resolve("leasehold")), "..");
  return docs.replace(/^node_modules\/leasehold\b/, () => folder);
}

/** By its shape: its class would load the library, which the help and usage errors do without. */
function isLeaseholdError(error: unknown): error is LeaseholdError {
  return isError(error) && typeof propertyOf(error, "docs") === "string";
}

/** By the option of the library, which begins the message of INVALID_OPTION. */
const FLAGS: Readonly<Record<string, string>> = {
  catchUp: "--catch-up",
  concurrencyKey: "--concurrency-key",
  control: "--control",
  cron: "--cron",
  cursor: "--cursor",
  dedupeKey: "--dedupe-key",
  everyMs: "--every",
  jitterMs: "--jitter",
  overlap: "--overlap",
  perKey: "--per-key",
  source: "--store",
  timeZone: "--time-zone",
};

/** The library names its options, of which the user has typed flags. Names of resources are in quotes. */
function withFlags(message: string): string {
  return message
    .replace(/^\w+(?= )/, (path) => (Object.hasOwn(FLAGS, path) ? FLAGS[path] : undefined) ?? path)
    .replace(/(?<=^--cron .*)\b(everyMs|jitterMs|timeZone)\b/gs, (name) => FLAGS[name] ?? name)
    .replace(
      /^(ttl|wait|grace)Ms must be from (\d+) to (\d+), not (\d+)$/,
      "--$1 must be from $2ms to $3ms, not $4ms",
    )
    .replace(/(?<![\w"])(ttl|wait|grace)Ms = (\d+)/g, "--$1 $2ms")
    .replace(/(?<![\w"])(ttl|wait|grace)Ms\b/g, "--$1");
}

function exitCodeOf(error: unknown): number {
  if (error instanceof OutputError) return error.exitCode;
  return error instanceof UsageError ? EXIT.usage : EXIT.failed;
}

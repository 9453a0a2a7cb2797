/** Prints results on stdout: a JSON line for programs, or text for people. */
import pc from "picocolors";
import { EXIT } from "./exit-codes.js";
import { safeJson, safeLayout } from "./terminal.js";

const isColored = Boolean(process.stdout.isTTY) && pc.isColorSupported;
/** Colours if stdout is a terminal and NO_COLOR is not set. */
export const colors = pc.createColors(isColored);

/** As Node reports it. */
type WriteError = Error & { readonly code?: string };

/** The output could not be written: the reader has closed the pipe, or the disk is full. */
export class OutputError extends Error {
  override readonly name = "OutputError";
  readonly exitCode: number;
  /** Whether the command has nothing to say: a reader such as head wants no more. */
  readonly isQuiet: boolean;

  /** @param consequence what was done, and cannot be known without the output */
  constructor(cause: WriteError, consequence?: string) {
    const what = `cannot write the output: ${cause.message}`;
    super(consequence === undefined ? what : `${what}: ${consequence}`, { cause });
    const isClosed = cause.code === "EPIPE";
    this.exitCode = isClosed ? EXIT.outputClosed : EXIT.outputFailed;
    this.isQuiet = isClosed && consequence === undefined;
  }
}

/**
 * For `print(...).catch(saying(...))`: adds to an OutputError what was done.
 * @param consequence called when the output could not be written
 */
export function saying(consequence: () => string | Promise<string>) {
  return async (error: unknown): Promise<never> => {
    if (!(error instanceof OutputError)) throw error;
    throw new OutputError(error.cause as WriteError, await consequence());
  };
}

/** Failures that a caller of {@link write} knows. */
const known = new WeakSet<Error>();

/**
 * Text from the store must pass through `shown` in `text`: only then do its line ends not look like ours.
 * @throws OutputError
 */
export async function print(
  json: boolean | undefined,
  value: unknown,
  text: () => string,
): Promise<void> {
  await write(`${json ? safeJson(value) : safeLayout(text(), isColored)}\n`);
}

/**
 * Writes to stdout as it is. Resolves when the text is written.
 * @throws OutputError
 */
export function write(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => {
      if (!error) return resolve();
      known.add(error);
      reject(new OutputError(error));
    });
  });
}

let latest = Promise.resolve();

/** As {@link write}, for the help, whose printer cannot wait: {@link written} does. */
export function writeHelp(text: string): void {
  latest = write(text);
  latest.catch(() => {});
}

/**
 * Resolves when the help is written, or if none was asked for.
 * @throws OutputError
 */
export function written(): Promise<void> {
  return latest;
}

/**
 * Calls back with failures of writes that no caller waits for, such as those of the demo. Without a listener,
 * Node would print a stack. Failures on stderr are ignored: there is nowhere to report them.
 */
export function onOutputError(report: (error: OutputError) => void): void {
  process.stdout.on("error", (error: WriteError) => {
    if (!known.has(error)) report(new OutputError(error));
  });
  process.stderr.on("error", () => {});
}

const LAST_LINES_MS = 2_000;

/** For the end of the program: what a reader of stderr that has stopped does not take would keep the process for ever. */
export async function endWithoutReader(): Promise<void> {
  if (process.stderr.writableLength === 0) return;
  // Seldom needed, and not by the commands that must start fast.
  const { systemEnv } = await import("leasehold/internal");
  systemEnv.clock.timer(LAST_LINES_MS, () => process.exit(), { background: true });
}

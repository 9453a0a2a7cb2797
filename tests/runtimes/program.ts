/** Programs that the rows run: they end with the run, and after some minutes at the latest. */
import { ownEnvironment } from "../support/processes/cli.js";
import { Child } from "../support/processes/processes.js";

/** The longest of a row's programs takes a few seconds, and a compiler half a minute on a busy machine. */
const LONGEST_MS = 240_000;

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Runs a program to its end.
 * @returns what it prints on its standard output
 * @throws Error with all its output, if it fails or does not end
 */
export async function run(
  command: string,
  args: readonly string[],
  { cwd, env }: RunOptions = {},
): Promise<string> {
  const child = new Child(command, args, {
    input: "",
    env: { ...ownEnvironment(), ...env },
    ...(cwd !== undefined && { cwd }),
  });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    void child.endGroup();
  }, LONGEST_MS);
  const { code, stdout, stderr } = await child.ended;
  clearTimeout(timer);
  if (code === 0) return stdout;
  const how = isLate ? `did not end within ${LONGEST_MS / 1_000} s` : `ended with ${code}`;
  throw new Error(`${[command, ...args].join(" ")} ${how}:\n${stdout}\n${stderr}`);
}

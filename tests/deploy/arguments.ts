/** The command lines in what is deployed. */
import { leasehold } from "../support/processes/cli.js";

/** The commands of one line: `run ... -- leasehold migrate` has two. */
export function argumentsOf(args: readonly string[]): (readonly string[])[] {
  const end = args.indexOf("--");
  if (end < 0) return [args];
  const [program, ...rest] = args.slice(end + 1);
  return [args.slice(0, end), ...(program === "leasehold" ? argumentsOf(rest) : [])];
}

/** The options of a command, as its help has them. */
export async function optionsOf(command: string): Promise<string[]> {
  const { stdout } = await leasehold([command, "--help"]);
  return [...stdout.matchAll(/^ +(?:-\w, )?(--[a-z-]+)/gm)].map(([, name = ""]) => name);
}

import { parseArgs } from "node:util";

/**
 * The arguments of a script. Ends the process for --help, with the help, and for a wrong argument, with 64.
 * @template {import("node:util").ParseArgsConfig} Config
 * @param {string} help
 * @param {Config} config
 * @returns {ReturnType<typeof parseArgs<Config>>}
 */
export function argumentsOf(help, config) {
  const args = process.argv.slice(2);
  if (args.includes("--help") || args.includes("-h")) {
    console.log(help);
    process.exit();
  }
  try {
    return parseArgs({ ...config, args });
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${help}`);
    process.exit(64);
  }
}

// The arguments of a command whose help is the comment at the beginning of its file.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

/**
 * As `parseArgs`. Prints the help and ends the process if it is asked for, or if the arguments are wrong.
 * @template {import("node:util").ParseArgsConfig} Config
 * @param {string} url `import.meta.url` of the command
 * @param {Config} config
 * @returns {ReturnType<typeof parseArgs<Config>>}
 */
export function argumentsOf(url, config) {
  try {
    const options = { ...config.options, help: { type: "boolean" } };
    const parsed = parseArgs({ ...config, options });
    if (!("help" in parsed.values)) return parsed;
    process.stdout.write(helpOf(url));
    process.exit(0);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n\n${helpOf(url)}`);
    process.exit(64);
  }
}

/** @param {string} url */
function helpOf(url) {
  const lines = readFileSync(fileURLToPath(url), "utf8").split("\n");
  const end = lines.findIndex((line) => !line.startsWith("//"));
  const texts = lines.slice(0, end).map((line) => line.replace(/^\/\/ ?/, ""));
  return `${texts.join("\n")}\n`;
}

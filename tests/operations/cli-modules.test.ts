/** Commands that are stopped while a module of the user has not settled. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { Cli, checkBuild, endAll } from "../support/processes/cli.js";
import { temporaryFolder } from "../support/processes/processes.js";

beforeAll(() => checkBuild());
afterEach(() => endAll());

const NEVER = "console.error('waiting'); await new Promise(() => {});";
const MODULES = [
  `${NEVER} export default [];`,
  `export default async () => { ${NEVER} };`,
] as const;

/** Starts the command, and ends it when its module waits. */
async function stopped(source: string, commandOf: (file: string) => string[]) {
  const file = join(await temporaryFolder(), "module.mjs");
  await writeFile(file, source);
  const cli = new Cli(commandOf(file));
  await cli.until(({ err }) => err.includes("waiting"));
  return cli.end("SIGTERM");
}

it.each(MODULES)("a worker ends with 0: %s", async (source) => {
  const worker = ["worker", "--store", "postgres://127.0.0.1:1/none", "--handlers"];
  expect(await stopped(source, (file) => [...worker, file])).toMatchObject({ code: 0 });
});

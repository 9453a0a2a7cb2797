import type { Command } from "commander";
import { expect, it } from "vitest";
import { COMMANDS } from "./commands.js";
import { loadProgram } from "./program.js";

const helpOf = async (words?: readonly string[]) =>
  (await loadProgram(words)).program.helpInformation();

async function fullHelpOf(command: Command): Promise<readonly string[]> {
  let text = "";
  const writeOut = (part: string) => (text += part);
  command.configureOutput({ writeOut });
  command.outputHelp();
  const below = await Promise.all(command.commands.map(fullHelpOf));
  return [text, ...below.flat()];
}

it("prints help that fits into 120 columns and needs no file of the repository", async () => {
  const { program } = await loadProgram();
  const lines = (await fullHelpOf(program)).flatMap((text) => text.split("\n"));
  expect(lines.length).toBeGreaterThan(1_000);
  expect(lines.filter((line) => line.length > 120)).toEqual([]);
  expect(lines.filter((line) => /\bdocs\//.test(line))).toEqual([]);
});

it("lists the commands as they are when they are loaded", async () => {
  expect(await helpOf([])).toBe(await helpOf());
});

it.each([
  [["acquire", "run"], "acquire"],
  [["help", "run"], "run"],
  [["lock"], "run"],
  [["--", "generator"], "generate"],
  [["constructor", "--help"], undefined],
])("loads of %j the command %s", async (words, name) => {
  const { program } = await loadProgram(words);
  const loaded = program.commands.filter(
    ({ options, commands }) => options.length + commands.length > 1,
  );
  expect(loaded.map((command) => command.name())).toEqual(name === undefined ? [] : [name]);
  expect(program.commands.map((command) => command.name())).toEqual(Object.keys(COMMANDS));
});

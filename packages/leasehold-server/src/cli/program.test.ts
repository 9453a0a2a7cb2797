import { expect, it } from "vitest";
import { COMMANDS } from "./commands.js";
import { loadProgram } from "./program.js";

const helpOf = async (words?: readonly string[]) =>
  (await loadProgram(words)).program.helpInformation();

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

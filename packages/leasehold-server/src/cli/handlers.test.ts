import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loadHandlers } from "./handlers.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "leasehold-handlers-"));
});
afterAll(() => rm(folder, { recursive: true }));

let files = 0;
async function load(source: string, options = {}, context = {}) {
  const file = join(folder, `${(files += 1)}.mjs`);
  await writeFile(file, source);
  return loadHandlers(file, options, context);
}
const HANDLER = "{ kind: 'a', run: async () => null }";

it("accepts an array, or a function of the options", async () => {
  expect(await load(`export default [${HANDLER}];`)).toMatchObject([{ kind: "a" }]);
  const source = `export default async ({ kind }) => [{ ...${HANDLER}, kind }];`;
  expect(await load(source, { kind: "b" })).toMatchObject([{ kind: "b" }]);
  const measured = `export default (_, { telemetry }) => [{ ...${HANDLER}, kind: telemetry.name }];`;
  const telemetry = { name: "c" };
  expect(await load(measured, {}, { telemetry })).toMatchObject([{ kind: "c" }]);
});

it.each([
  ["export const a = 1;", /the default export of .*1?\d\.mjs must be an array/],
  ["export default [];", /must be an array of handlers/],
  ["export default () => 5;", /must be an array of handlers/],
  [
    `export default [${HANDLER}, { kind: "b" }];`,
    /entry 1 of the default export .* is not a handler/,
  ],
  ["throw new Error('oops');", /\d\.mjs failed: oops/],
  ["export default () => { throw new Error('oops'); };", /failed: oops/],
  ["export default [", /failed: /],
])("refuses %s", async (source, problem) => {
  await expect(load(source)).rejects.toThrow(problem);
});

it("refuses a file that does not exist", async () => {
  await expect(loadHandlers(join(folder, "none.js"), {})).rejects.toThrow(
    /there is no file .*none/,
  );
  await expect(loadHandlers(folder, {})).rejects.toThrow(/there is no file/);
});

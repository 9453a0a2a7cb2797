/** Drivers that cannot be loaded, as real packages in a folder: each is reported with its own cause. */
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { runInNewContext } from "node:vm";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../../tests/support/processes/processes.js";
import { driverError, driverPart } from "./driver.js";

const PACKAGES = {
  "missing-own": `import "missing-inside"; export const Client = 1;`,
  "missing-file": `import "./no-such-file.js"; export const Client = 1;`,
  "syntax-error": "export const Client = ;",
  throws: `throw new RangeError("needs Node 24");`,
  "throws-null": "throw null;",
  "throws-wrapped": `throw new Error("no start: Cannot find package 'throws-wrapped'");`,
  old: "export const createClient = 1;",
  works: "export const Client = 1;",
};
type Name = keyof typeof PACKAGES | "missing";
let load: (name: Name) => () => Promise<{ readonly Client?: number }>;

beforeAll(async () => {
  const modules = join(await temporaryFolder(), "node_modules");
  const write = async (name: string, files: Readonly<Record<string, string>>) => {
    await mkdir(join(modules, name), { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      await writeFile(join(modules, name, file), text);
    }
  };
  for (const [name, text] of Object.entries(PACKAGES)) {
    await write(name, { "package.json": `{"type":"module","exports":"./i.js"}`, "i.js": text });
  }
  // In node_modules, so that Node loads it itself, and what it imports.
  await write("entry", {
    "package.json": `{"type":"module"}`,
    "i.js": "export const load = (name) => () => import(name);",
  });
  const entry = pathToFileURL(join(modules, "entry", "i.js")).href;
  ({ load } = (await import(/* @vite-ignore */ entry)) as { load: typeof load });
});

describe("a driver", () => {
  /** As a store does it. */
  const open = (name: Name) => openBy(name, load(name));
  const openBy = async (
    name: string,
    importDriver: () => Promise<{ readonly Client?: number }>,
  ) => {
    const loaded = await importDriver().catch((error: unknown) => {
      throw driverError(name, error);
    });
    return driverPart(name, loaded.Client);
  };

  it("returns the part of the package that the store uses", async () => {
    expect(await open("works")).toBe(1);
  });

  it.each([
    ["missing", /^the package missing is missing: npm install missing$/],
    [
      "missing-own",
      /^the package missing-own is installed but .*Cannot find package 'missing-inside'/,
    ],
    [
      "missing-file",
      /^the package missing-file is installed but .*Cannot find module .*no-such-file/,
    ],
    ["syntax-error", /^the package syntax-error is installed but .*SyntaxError: Unexpected token/],
    ["throws-wrapped", /^the package throws-wrapped is installed but .*no start: Cannot find/],
    [
      "throws",
      /^the package throws is installed but .*RangeError: needs Node 24; install it again/,
    ],
  ] as const)("reports the cause of %s", async (name, message) => {
    const cause: unknown = await load(name)().catch((error: unknown) => error);
    expect(cause).toBeInstanceOf(Error);
    await expect(open(name)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      retryable: false,
      outcome: "none",
      message: expect.stringMatching(message),
      cause: expect.objectContaining({ message: (cause as Error).message }),
    });
  });

  it("reports a thrown value that is no error", async () => {
    await expect(open("throws-null")).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/^the package throws-null is installed but .*: null;/),
    });
  });

  it("finds a package missing that CommonJS requires", async () => {
    const require = createRequire(import.meta.url);
    const name = "no-such-package";
    await expect(openBy(name, async () => require(name) as object)).rejects.toMatchObject({
      message: `the package ${name} is missing: npm install ${name}`,
    });
  });

  it.each([
    ["Bun", "Cannot find package 'pg' from '/app/node_modules/leasehold/dist/i.js'"],
    ["Deno", "Could not find package 'pg' from referrer 'file:///app/i.js'."],
    ["webpack", "Cannot find module 'pg'"],
    ["Vite", 'Could not resolve "pg" imported by "leasehold".'],
    ["Jest", "Cannot find module 'pg' from 'node_modules/leasehold/dist/i.js'"],
  ])("finds a package missing as %s says it", (_, message) => {
    // Jest's errors are of another realm than the code that it runs.
    for (const error of [new Error(message), runInNewContext("new Error(message)", { message })]) {
      const expected = "the package pg is missing: npm install pg";
      expect(driverError("pg", error)).toMatchObject({ message: expected, cause: error });
    }
  });

  it("names a version that lacks what the store uses", async () => {
    await expect(open("old")).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/^the package old lacks what leasehold uses of it: install/),
    });
  });
});

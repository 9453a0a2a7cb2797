/** The examples of the docstrings, as the modules that a reader would copy, against the built packages. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { checkBuild } from "../support/cli.js";
import { typescript } from "../support/compile.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const sources = join(root, "packages/leasehold/src");
const BLOCK = /@example\s*```(?:js|ts)\n([^]*?)```/g;

interface Example {
  readonly name: string;
  readonly code: string;
}

/** Examples in a docstring, without the asterisks of its lines. */
function examplesOf(file: string): Example[] {
  const text = readFileSync(join(sources, file), "utf8");
  return [...text.matchAll(/\/\*\*[^]*?\*\//g)].flatMap((comment) => {
    const docstring = comment[0].replaceAll(/^ *\* ?/gm, "");
    return [...docstring.matchAll(BLOCK)].map(([, code = ""]) => {
      const line = text.slice(0, comment.index).split("\n").length;
      return { name: `${file}:${line}`, code };
    });
  });
}

const examples = readdirSync(sources, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
  .sort()
  .flatMap(examplesOf);
/** An engine's URL or driver; such an example is only type-checked. */
const NEEDS_ENGINE = /(postgres|redis|etcd|zookeeper|https?):\/\/|from "(ioredis|pg)"/;
const needsEngine = ({ code }: Example) => NEEDS_ENGINE.test(code);

/** For the oldest Node that the packages support. */
const OPTIONS = {
  target: "ES2022",
  lib: ["ES2024", "ESNext.Disposable"],
  module: "NodeNext",
  types: ["node"],
  strict: true,
  noImplicitAny: false,
  skipLibCheck: true,
  rootDir: ".",
  outDir: "built",
};
const moduleOf = ({ name }: Example) => name.replaceAll(/\W/g, "-");

let folder: string;
beforeAll(async () => {
  checkBuild();
  // Inside node_modules, so that packages are found from there.
  folder = mkdtempSync(join(root, "node_modules", ".leasehold-docstrings-"));
  for (const example of examples) {
    writeFileSync(join(folder, `${moduleOf(example)}.mts`), example.code);
  }
  const files = examples.map((example) => `${moduleOf(example)}.mts`);
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: OPTIONS, files }));
  await typescript(folder);
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("are found, and compile", () => {
  expect(examples.length).toBeGreaterThanOrEqual(12);
  expect(examples.some(needsEngine)).toBe(true);
});

describe("run with a memory store", () => {
  it.each(examples.filter((example) => !needsEngine(example)))("$name", async (example) => {
    const file = join(folder, "built", `${moduleOf(example)}.mjs`);
    const log = vi.spyOn(console, "log").mockReturnValue();
    try {
      await import(/* @vite-ignore */ pathToFileURL(file).href);
    } finally {
      log.mockRestore();
    }
  });
});

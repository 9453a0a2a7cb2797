/**
 * The examples of the docstrings, as the modules that a reader would copy, against the built packages. Each public
 * name that exists at run time has one, and so has each method of a public class.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { PGlite } from "@electric-sql/pglite";
import { parseSync } from "oxc-parser";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { quickPglite } from "../support/engines/pglite.js";
import { checkBuild } from "../support/processes/cli.js";
import { typescript } from "../support/processes/compile.js";
import { entriesOf, namesOf, type PublicName, plain } from "./public-names.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const PACKAGES = ["leasehold", "leasehold-server"];
const BLOCK = /@example\s*```ts\n([^]*?)```/g;
/** Interfaces of objects that a program calls. Programs implement the others, or only read them. */
const CALLED = new Set([
  "Fencing",
  "Guard",
  "HeldResource",
  "Listening",
  "ManualClock",
  "RedisGuard",
  "ServerApp",
  "SqlGuard",
  "TaskDefinition",
]);

/** Examples that are compiled but not run, by what they import or connect to. */
const ONLY_COMPILED: readonly (readonly [reason: string, pattern: RegExp])[] = [
  ["needs a database server", /postgres:\/\/|from "pg"/],
  ["needs a Redis server", /redis:\/\/|from "ioredis"/],
  ["needs an etcd cluster", /etcd:\/\//],
  ["needs a Consul agent", /consul:\/\//],
  ["needs a ZooKeeper ensemble", /leasehold\/stores\/zookeeper/],
  ["needs a Kubernetes cluster", /leasehold\/stores\/kubernetes/],
  ["needs a Leasehold server", /https?:\/\/leases\.example/],
  ["needs certificates", /tls\.crt/],
  ["defines tests, which a running test must not", /from "vitest"/],
];

interface Example {
  readonly name: string;
  readonly code: string;
}
const codesOf = (docstring: string) => [...docstring.matchAll(BLOCK)].map(([, code = ""]) => code);
const docstringsOf = (text: string) => [...text.matchAll(/\/\*\*[^]*?\*\//g)];
const lineOf = (text: string, at: number) => text.slice(0, at).split("\n").length;

const files = PACKAGES.flatMap((name) => {
  const folder = join(root, "packages", name, "src");
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .sort()
    .map((file) => ({
      file: `${name}/${file}`,
      text: readFileSync(join(folder, file), "utf8"),
    }));
});
const examples = files.flatMap(({ file, text }): Example[] =>
  docstringsOf(text).flatMap((comment) => {
    const line = lineOf(text, comment.index);
    return codesOf(plain(comment[0])).map((code, index) => ({
      name: `${file}:${line}${index > 0 ? `.${index}` : ""}`,
      code,
    }));
  }),
);
const reasonOf = ({ code }: Example) =>
  ONLY_COMPILED.find(([, pattern]) => pattern.test(code))?.[0];

const entries = PACKAGES.flatMap(entriesOf).map((entry) => ({ ...entry, names: namesOf(entry) }));

/** What Node 20 has. The declarations name `AsyncDisposable`. */
const OPTIONS = {
  target: "ES2022",
  lib: ["ES2023", "ESNext.Disposable"],
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
const { create } = PGlite;
beforeAll(async () => {
  checkBuild();
  // Inside node_modules, so that packages are found from there.
  folder = mkdtempSync(join(root, "node_modules", ".leasehold-docstrings-"));
  for (const example of examples) {
    writeFileSync(join(folder, `${moduleOf(example)}.mts`), example.code);
  }
  const modules = examples.map((example) => `${moduleOf(example)}.mts`);
  const config = { compilerOptions: OPTIONS, files: modules };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  await typescript(folder);
  vi.stubEnv("TEST_PGLITE", (await quickPglite())["TEST_PGLITE"]);
  await import("../support/engines/pglite-preload.js");
}, 120_000);
afterAll(() => {
  vi.unstubAllEnvs();
  PGlite.create = create;
  rmSync(folder, { recursive: true, force: true });
});

describe("an example has", () => {
  it.each(entries)("each run-time export of $specifier", async ({ built, names }) => {
    const exported = Object.keys(await import(/* @vite-ignore */ pathToFileURL(built).href));
    const withExample = names
      // Internal names are exported for the tests of this repository alone.
      .filter(({ docstring }) => docstring.includes("@internal") || codesOf(docstring).length > 0)
      .map(({ name }) => name);
    expect(exported.filter((name) => !withExample.includes(name))).toEqual([]);
  });

  const called = new Map<string, PublicName & { readonly shownBy: string }>();
  for (const { names } of entries) {
    const ofEntry = names.flatMap(({ docstring }) => codesOf(docstring)).join("\n");
    for (const found of names) {
      const { name, kind, docstring } = found;
      // Functions of its entry return what has the methods of an interface: their examples call them.
      const shownBy = kind === "class" ? codesOf(docstring).join("\n") : ofEntry;
      if (kind === "class" || CALLED.has(name)) called.set(name, { ...found, shownBy });
    }
  }
  it("each name in the list of interfaces that programs call", () => {
    expect([...CALLED].filter((name) => !called.has(name))).toEqual([]);
  });
  it.each([...called.values()])("each method of $title", ({ methods, shownBy }) => {
    const without = methods.filter(
      (method) =>
        !method.docstring.includes("@internal") &&
        codesOf(method.docstring).length === 0 &&
        !shownBy.includes(`.${method.name}(`),
    );
    expect(without.map(({ name }) => name)).toEqual([]);
  });
});

it("are in fences of TypeScript, so that this test reads all of them", () => {
  const unread = files.flatMap(({ file, text }) =>
    docstringsOf(text).flatMap((comment) => {
      const docstring = plain(comment[0]);
      const written = (docstring.match(/^\s*@example\s/gm) ?? []).length;
      return written > codesOf(docstring).length ? [`${file}:${lineOf(text, comment.index)}`] : [];
    }),
  );
  expect(unread).toEqual([]);
});

it("are JavaScript that Node 20 runs as it stands", () => {
  const others = examples.filter(
    // Node 20 lacks `await using`.
    ({ code }) => parseSync("example.mjs", code).errors.length > 0 || /\busing \w+ =/.test(code),
  );
  expect(others.map(({ name }) => name)).toEqual([]);
});

describe("run", () => {
  const toRun = examples.filter((example) => !reasonOf(example));
  it.each(toRun)("$name", { timeout: 60_000 }, async (example) => {
    const file = join(folder, "built", `${moduleOf(example)}.mjs`);
    const log = vi.spyOn(console, "log").mockReturnValue();
    try {
      await import(/* @vite-ignore */ pathToFileURL(file).href);
    } finally {
      log.mockRestore();
    }
  });

  it.each(ONLY_COMPILED)("only where possible: an example %s", (reason) => {
    expect(examples.some((example) => reasonOf(example) === reason)).toBe(true);
  });
});

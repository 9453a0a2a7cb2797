/** ARCHITECTURE.md as a test: the rules of each package hold, and each rule catches what it should. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Module, readModule } from "../../support/documents/modules.js";
import { check as checkBy, cycles, type Rules } from "./check.js";
import { LIBRARY, manifestOf, optionalPeers, SERVER } from "./rules.js";

const root = new URL("../../../", import.meta.url);

/** Text by path below a folder; tests are left out. */
function sourcesBelow(folder: string): Map<string, string> {
  const url = new URL(folder, root);
  const paths = readdirSync(url, { recursive: true, encoding: "utf8" })
    .filter((path) => /(?<!\.test)\.tsx?$/.test(path) && !path.includes("node_modules"))
    .sort();
  return new Map(paths.map((path) => [path, readFileSync(new URL(path, url), "utf8")]));
}

const PACKAGES: readonly [name: string, rules: Rules][] = [
  ["leasehold", LIBRARY],
  ["leasehold-server", SERVER],
];

describe.each(PACKAGES)("%s", (name, rules) => {
  it("keeps its rules in every source", () => {
    const sources = sourcesBelow(`packages/${name}/src/`);
    expect(sources.size).toBeGreaterThan(20);
    const violations = checkBy(rules, sources).map((v) => `${v.path}:${v.line} ${v.rule}`);
    expect(violations.join("\n")).toBe("");
  });

  it("knows a place for every package that users install, and no other", () => {
    const installed = [...Object.keys(manifestOf(name).dependencies), ...optionalPeers(name)];
    expect(Object.keys(rules.packages).sort()).toEqual(installed.sort());
  });
});

function modulesBelow(folder: string): ReadonlyMap<string, Module> {
  const modules = new Map<string, Module>();
  for (const [path, source] of sourcesBelow(folder)) modules.set(path, readModule(path, source));
  expect(modules.size).toBeGreaterThan(10);
  return modules;
}

const APPS = ["console", "simulator", "ui"];

it.each([...APPS.map((app) => `apps/${app}/src/`), "verification/"])(
  "%s has no rings of imports",
  (folder) => {
    expect(cycles(modulesBelow(folder))).toEqual([]);
  },
);

it.each(APPS)("apps/%s imports no other app but leasehold-ui", (app) => {
  const others = [...modulesBelow(`apps/${app}/src/`)].flatMap(([path, { imports }]) =>
    imports
      .map(({ specifier }) => String(specifier))
      .filter((specifier) =>
        specifier.startsWith(".")
          ? join(dirname(path), specifier).startsWith("..")
          : /^leasehold-(console|simulator)/.test(specifier),
      )
      .map((specifier) => `${path}: ${specifier}`),
  );
  expect(others).toEqual([]);
});

const check = (sources: ReadonlyMap<string, string>) => checkBy(LIBRARY, sources);

/** Planted faults: what each rule must catch, or must let pass. */
const FILES = {
  "control/index.ts": "export {};",
  "instrumentation/index.ts": 'import "@opentelemetry/api";',
  "wire/index.ts": "export {};",
  "env/index.ts": "export const clock = 1;",
  "lease/index.ts": "export {};",
  "lease/port.ts": "export {};",
  "tasks/index.ts": "export {};",
  "tasks/port.ts": "export {};",
  "stores/open.ts": "export {};",
  "stores/source.ts": "export {};",
  "stores/memory/index.ts": "export {};",
  "stores/postgres/index.ts": "export {};",
};
const planted: readonly [path: string, source: string, rule: string | null][] = [
  ["env/a.ts", 'import "../lease/index.js";', "layers: env imports lease"],
  ["lease/a.ts", 'import type { A } from "../tasks/index.js";', "layers: lease imports tasks"],
  ["lease/a.ts", 'export * from "../stores/open.js";', "layers: lease imports stores/open"],
  ["lease/a.ts", 'type A = import("../tasks/index.js").A;', "layers: lease imports tasks"],
  ["lease/a.ts", 'await import("../tasks/index.js");', "layers: lease imports tasks"],
  ["lease/a.ts", 'import "../env/index.js";', null],
  ["stores/http/a.ts", 'import "../memory/index.js";', "layers: stores/http imports stores/memory"],
  ["stores/http/a.ts", 'import type { A } from "../source.js";', null],
  ["stores/http/a.ts", 'import { a } from "../source.js";', "types only: stores/source"],
  ["stores/open.ts", 'import "./memory/index.js";', "engines are loaded when opened"],
  ["stores/open.ts", 'const a = () => import("./memory/index.js");', null],
  ["stores/open.ts", 'import type { Stores } from "./source.js";', null],
  ["wire/a.ts", 'import { type A, b } from "../control/index.js";', "types only: control"],
  ["wire/a.ts", 'import { type A, type B } from "../control/index.js";', null],
  ["tasks/a.ts", 'import "../lease/port.js";', "inside: lease/port.ts is not the index of lease"],
  ["stores/memory/a.ts", 'import "../../tasks/port.js";', null],
  ["stores/http/a.ts", 'import "../../wire/index.js";', null],
  ["lease/a.ts", 'import "./nowhere.js";', "missing: lease/nowhere.ts"],
  ["helpers/a.ts", "export {};", "folder: helpers is not in the table"],
  ["lease/a.ts", 'import { readFile } from "node:fs";', "node: node:fs"],
  ["tasks/a.ts", 'import "hono/cors";', "package: hono"],
  ["lease/a.ts", 'import "left-pad";', "package: left-pad"],
  ["stores/postgres/a.ts", 'import { Pool } from "pg";', "optional peer: pg"],
  ["stores/postgres/a.ts", 'import type { Pool } from "pg"; await import("pg");', null],
  ["lease/a.ts", "const a = (b: string) => import(b);", "dynamic: loads what it cannot name"],
  ["lease/a.ts", "\n\nDate.now();", "clock: Date.now"],
  ["lease/a.ts", 'Date["now"]();', "clock: Date.now"],
  ["lease/a.ts", "const { now } = Date;", "clock: Date.now"],
  ["lease/a.ts", "new Date();", "clock: new Date()"],
  ["lease/a.ts", "new Date(5); ({ now: 1, performance: 2 });", null],
  ["lease/a.ts", "globalThis.performance.now();", "clock: performance"],
  ["lease/a.ts", "AbortSignal.timeout(5);", "timer: AbortSignal.timeout"],
  ["tasks/a.ts", "Math.random();", "chance: Math.random"],
  ["tasks/a.ts", "crypto.randomUUID();", "chance: crypto"],
  ["env/a.ts", "crypto.randomUUID(); setTimeout(Date.now); performance.now();", null],
  ["tasks/a.ts", "process.env.HOME;", "surroundings: process.env"],
  ["tasks/a.ts", "const { argv } = process;", "surroundings: process.argv"],
  ["tasks/a.ts", 'Buffer.from("a");', "node: Buffer"],
];
it.each(planted)("judges %s: %j as %s", (path, source, rule) => {
  judge(LIBRARY, { ...FILES, [path]: source }, path, rule);
});

const SERVER_FILES = {
  "protocol/index.ts": "export {};",
  "http/index.ts": "export {};",
  "http/app.ts": "export {};",
  "cli/main.ts": "export {};",
};
const plantedInServer: readonly [path: string, source: string, rule: string | null][] = [
  ["http/a.ts", 'import "../cli/main.js";', "layers: http imports cli"],
  ["protocol/a.ts", 'import "../http/index.js";', "layers: protocol imports http"],
  ["cli/a.ts", 'import "../http/app.js";', "inside: http/app.ts is not the index of http"],
  [
    "cli/a.ts",
    'import { connect } from "leasehold"; import { rules } from "leasehold/internal";',
    null,
  ],
  ["http/a.ts", 'import "node:http";', "node: node:http"],
  ["http/listen.ts", 'import "node:http";', null],
  ["cli/a.ts", 'import "node:timers/promises";', "chance and clocks: node:timers/promises"],
  ["cli/a.ts", 'import "node:crypto";', "chance and clocks: node:crypto"],
  ["cli/tls-files.ts", 'import { X509Certificate } from "node:crypto";', null],
  ["cli/a.ts", "const a = (b: string) => import(b);", null],
  ["protocol/a.ts", 'import "hono/cors";', "package: hono"],
  ["http/a.ts", 'import "hono/cors";', null],
  ["http/a.ts", 'import "@hono/node-server/x";', "package: @hono/node-server"],
  ["cli/a.ts", 'import "pg";', "package: pg"],
  ["cli/a.ts", "setTimeout(() => {}, 5);", "timer: setTimeout"],
  ["cli/a.ts", "const later = setImmediate;", "timer: setImmediate"],
  ["cli/a.ts", "type Handle = ReturnType<typeof setTimeout>;", null],
  ["http/a.ts", "process.env.HOME;", "surroundings: process.env"],
  ["cli/a.ts", "process.env.HOME;", null],
];
it.each(plantedInServer)("judges the server's %s: %j as %s", (path, source, rule) => {
  judge(SERVER, { ...SERVER_FILES, [path]: source }, path, rule);
});

function judge(rules: Rules, files: object, path: string, rule: string | null) {
  const violations = checkBy(rules, new Map(Object.entries(files)));
  const found = [...new Set(violations.map((violation) => violation.rule))];
  expect(found).toEqual(rule === null ? [] : [rule]);
  for (const violation of violations) expect(violation.path).toBe(path);
}

it("names the line", () => {
  const found = check(new Map([["lease/a.ts", "// one\n// two\nDate.now();"]]));
  expect(found).toEqual([{ path: "lease/a.ts", line: 3, rule: "clock: Date.now" }]);
});

it("measures files", () => {
  const judge = (lines: number) => check(new Map([["lease/a.ts", "a();\n".repeat(lines)]]));
  expect(judge(400)).toEqual([]);
  const rule = "length: more than 400 lines";
  expect(judge(401)).toEqual([{ path: "lease/a.ts", line: 400, rule }]);
});

it("weighs what loads with an entry", () => {
  const sources = { ...FILES, "election/index.ts": 'import "../instrumentation/index.js";' };
  const rule = "weight: election/index.ts loads @opentelemetry/api";
  const found = check(new Map(Object.entries(sources)));
  expect(found).toContainEqual({ path: "instrumentation/index.ts", line: 1, rule });
});

it("finds what ties an entry to Node", () => {
  const rules = (sources: Record<string, string>) =>
    check(new Map(Object.entries({ ...FILES, ...sources }))).map(({ rule }) => rule);
  expect(
    rules({
      "connect.ts": "export {};",
      "browser.ts": 'import "./stores/open-anywhere.js";',
      "stores/open-anywhere.ts": 'const a = () => import("./http/index.js");',
      "stores/http/index.ts": 'import "./pipe.js"; import type { A } from "../../env/index.js";',
      "stores/http/pipe.ts": "process.stdout; export {};",
    }),
  ).toEqual(["tie: browser.ts needs a process", "tie: stores/http/index.ts needs a process"]);
  expect(rules({ "stores/http/index.ts": 'await import("../postgres/index.js");' })).toContain(
    "tie: stores/http/index.ts needs stores/postgres/index.ts",
  );
});

it("finds rings of imports", () => {
  const ring = (a: string, b: string) =>
    check(new Map(Object.entries({ "lease/a.ts": a, "lease/b.ts": b }))).map(({ rule }) => rule);
  const found = ["cycle: lease/a.ts > lease/b.ts > lease/a.ts"];
  expect(ring('import "./b.js";', 'import "./a.js";')).toEqual(found);
  expect(ring('export * from "./b.js";', 'import type { A } from "./a.js";')).toEqual(found);
  expect(ring('import "./b.js";', 'await import("./a.js");')).toEqual([]);
});

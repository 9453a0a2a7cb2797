/**
 * Who may import whom, and who may touch the outside world: ARCHITECTURE.md as a test.
 * The rules are the tables below; a violation names file, line and rule.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, posix } from "node:path";
import { expect, it } from "vitest";
import { type Import, type Module, readModule } from "./support/modules.js";

/** A unit is a folder of src/, one engine of stores/, or a file that stands alone. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  env: [],
  lease: ["env"],
  election: ["env", "lease"],
  fence: ["env", "lease"],
  control: ["env", "lease", "tasks"],
  telemetry: ["env", "lease", "tasks"],
  // The generator is a Singleton.
  tasks: ["env", "lease", "election"],
  "stores/memory": ["env", "lease", "tasks", "control", "stores/source"],
  "stores/postgres": ["env", "lease", "tasks", "control", "stores/source"],
  "stores/http": ["env", "lease", "tasks", "control", "protocol", "stores/source"],
  "stores/etcd": ["env", "lease", "stores/source"],
  "stores/kubernetes": ["env", "lease", "stores/source"],
  "stores/redis": ["env", "lease", "stores/source"],
  "stores/zookeeper": ["env", "lease", "stores/source"],
  "stores/source": ["env", "lease", "tasks", "control"],
  "stores/opening": ["env", "lease", "control", "stores/source"],
  "stores/open-anywhere": ["stores/opening", "stores/memory", "stores/http"],
  "stores/open": ["env", "stores/opening", "stores/open-anywhere", "stores/source", "stores/*"],
  protocol: ["lease", "tasks", "control"],
  server: ["env", "lease", "election", "tasks", "control", "protocol", "telemetry"],
  testing: ["env", "lease", "tasks", "control"],
  simulation: [
    ...["env", "lease", "election", "fence", "tasks", "control", "protocol", "server", "testing"],
    ...["stores/memory", "stores/http"],
  ],
  // What authors of stores import.
  port: ["env", "lease"],
  // The public face: it alone joins lease/ with stores/.
  index: ["lease", "tasks", "connect", "face", "stores/open", "stores/source"],
  browser: [
    ...["lease", "tasks", "connect", "face"],
    ...["stores/opening", "stores/open-anywhere", "stores/source"],
  ],
  connect: ["env", "lease", "tasks", "stores/opening", "stores/source"],
  face: ["env", "lease", "election", "fence", "tasks", "control", "stores/source"],
  cli: [
    ...["env", "lease", "election", "fence", "tasks", "control", "protocol", "server", "testing"],
    ...["simulation", "stores/*", "index", "telemetry"],
  ],
};

/** A folder is imported through its index.ts, but for these, which bring little with them. */
const OPEN_MODULES: Readonly<Record<string, readonly string[]>> = {
  "tasks/port.ts": ["stores/", "testing/", "control/"],
  "tasks/rules.ts": ["stores/", "testing/"],
  "tasks/record.ts": ["stores/", "testing/"],
  "tasks/leases.ts": ["stores/", "testing/"],
  // The world's database is the memory store, whose records the checkers look into.
  "stores/memory/store.ts": ["simulation/"],
  "stores/memory/tasks.ts": ["simulation/"],
  // Without OpenTelemetry.
  "telemetry/top-prefixes.ts": ["server/"],
  // For people who look at a server, not for programs.
  "election/standing.ts": ["server/"],
  "tasks/explain.ts": ["server/"],
  "protocol/wire.ts": ["stores/http/", "cli/"],
  "protocol/mapping.ts": ["stores/http/"],
};

/** What programs and browsers load: neither schemas nor servers nor drivers may come with it. */
const LIGHT = /^(index|browser|port|(tasks|election|fence|testing|stores\/\w+)\/index)\.ts$/;
const HEAVY = [
  ...["zod", "@hono/zod-openapi", "hono", "@hono/node-server", "commander", "pino"],
  ...["@opentelemetry/api", "@opentelemetry/sdk-metrics"],
];

/** What runs wherever JavaScript does: nothing of Node may be reached from here, however late. */
const ANYWHERE =
  /^(browser|port|(tasks|election|fence|telemetry|testing|stores\/(memory|http|etcd))\/index)\.ts$/;
/** Asks first whether there is a process. */
const ASKS_FOR_PROCESS = ["env/ids.ts", "env/signals.ts"];

/** Only what is written here, as imports of types alone. */
const TYPES_ONLY: Readonly<Record<string, readonly string[]>> = {
  control: ["tasks"],
  protocol: ["control"],
  "stores/memory": ["stores/source"],
  "stores/postgres": ["stores/source"],
  "stores/http": ["stores/source"],
  "stores/etcd": ["stores/source"],
  "stores/kubernetes": ["stores/source"],
  "stores/redis": ["stores/source"],
  "stores/zookeeper": ["stores/source"],
};

/** What runs outside Node has no Node in it: these alone may import node:* and use Buffer. */
const NODE = [
  "stores/postgres/",
  "stores/kubernetes/",
  "stores/redis/",
  "stores/zookeeper/",
  "server/node.ts",
  "server/listen.ts",
  "server/console-files.ts",
  "cli/",
];

/** Packages and who may import them; all else is forbidden. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  "@noble/hashes": ["env/"],
  "@opentelemetry/api": ["telemetry/", "cli/open-telemetry.ts"],
  // What a server's own process exports by.
  "@opentelemetry/sdk-metrics": ["cli/"],
  "@opentelemetry/context-async-hooks": ["cli/open-telemetry.ts"],
  "@opentelemetry/core": ["cli/open-telemetry.ts"],
  "@opentelemetry/exporter-metrics-otlp-http": ["cli/open-telemetry.ts"],
  "@opentelemetry/exporter-trace-otlp-http": ["cli/open-telemetry.ts"],
  "@opentelemetry/resources": ["cli/open-telemetry.ts"],
  "@opentelemetry/sdk-trace-base": ["cli/open-telemetry.ts"],
  uuid: ["env/"],
  "@standard-schema/spec": ["tasks/"],
  "eventsource-parser": ["stores/http/"],
  // Whoever runs the suites has it, nobody else.
  "fast-check": ["testing/", "cli/conformance.ts"],
  tinyqueue: ["lease/", "stores/memory/", "testing/", "simulation/"],
  pg: ["stores/postgres/"],
  "@kubernetes/client-node": ["stores/kubernetes/"],
  "@electric-sql/pglite": ["stores/postgres/"],
  ioredis: ["stores/redis/"],
  "node-zookeeper-client": ["stores/zookeeper/"],
  zod: ["protocol/", "server/"],
  "@hono/zod-openapi": ["protocol/", "server/"],
  hono: ["server/"],
  "@hono/node-server": ["server/node.ts"],
  commander: ["cli/"],
  "cli-table3": ["cli/"],
  picocolors: ["cli/"],
  pino: ["cli/"],
};
/** What the user may not have installed: loaded when a store is opened or a suite is run. */
const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  dependencies: object;
  peerDependencies: object;
};
const OPTIONAL_PEERS = Object.keys(manifest.peerDependencies);

/** Globals and who may name them: time and chance are values of env, so that tests can inject them. */
const GLOBALS: readonly { names: RegExp; only: readonly string[]; rule: string }[] = [
  { names: /^(Date\.now|Date\(\)|new Date\(\)|performance)$/, only: ["env/"], rule: "clock" },
  {
    names: /^((set|clear)(Timeout|Interval|Immediate)|AbortSignal\.timeout|process\.hrtime)$/,
    only: ["env/"],
    rule: "timer",
  },
  { names: /^(Math\.random|crypto)$/, only: ["env/"], rule: "chance" },
  // A pod is told of its cluster by the environment, and everybody of a kubeconfig.
  {
    names: /^process\.(env|argv)$/,
    only: ["cli/", "stores/kubernetes/cluster.ts"],
    rule: "surroundings",
  },
  { names: /^(Buffer|require|__dirname|__filename)$/, only: NODE, rule: "node" },
];
/** Node's own names for the same. */
const NODE_CLOCKS = /^node:(timers|timers\/promises|perf_hooks|crypto)$/;

const MOST_LINES = 400;

interface Violation {
  readonly path: string;
  readonly line: number;
  readonly rule: string;
}

/** @param sources text by path below src/ */
function check(sources: ReadonlyMap<string, string>): Violation[] {
  const violations: Violation[] = [];
  const modules = new Map<string, Module>();
  for (const [path, source] of sources) modules.set(path, readModule(path, source));
  for (const [path, module] of modules) {
    const report = (line: number, rule: string) => violations.push({ path, line, rule });
    if (!(unitOf(path) in MAY_IMPORT)) report(1, `folder: ${unitOf(path)} is not in the table`);
    if (module.lines > MOST_LINES) report(MOST_LINES, `length: more than ${MOST_LINES} lines`);
    for (const reached of module.imports) {
      const rule = checkImport(path, reached, modules);
      if (rule) report(reached.line, rule);
    }
    for (const { name, line } of module.uses) {
      for (const { names, only, rule } of GLOBALS) {
        if (names.test(name) && !within(path, only)) report(line, `${rule}: ${name}`);
      }
    }
  }
  return [...violations, ...weights(modules), ...ties(modules), ...cycles(modules)];
}

function checkImport(
  path: string,
  { specifier, kind }: Import,
  modules: ReadonlyMap<string, Module>,
): string | null {
  if (specifier === null) {
    return within(path, ["cli/"]) ? null : "dynamic: only cli loads what it cannot name";
  }
  if (specifier.startsWith("node:")) {
    if (!within(path, NODE)) return `node: ${specifier}`;
    return NODE_CLOCKS.test(specifier) ? `chance and clocks: ${specifier}` : null;
  }
  if (!specifier.startsWith(".")) {
    const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
    if (!within(path, PACKAGES[name] ?? [])) return `package: ${name}`;
    return OPTIONAL_PEERS.includes(name) && kind === "static" ? `optional peer: ${name}` : null;
  }
  const target = resolve(path, specifier);
  if (!modules.has(target)) return `missing: ${target}`;
  const [from, to] = [unitOf(path), unitOf(target)];
  if (from === to) return null;
  const allowed = MAY_IMPORT[from] ?? [];
  if (!allowed.includes(to) && !(to.startsWith("stores/") && allowed.includes("stores/*"))) {
    return `layers: ${from} imports ${to}`;
  }
  if (TYPES_ONLY[from]?.includes(to) && kind !== "type") return `types only: ${to}`;
  if (from.startsWith("stores/open") && isEngine(target) && kind === "static") {
    return "engines are loaded when opened";
  }
  if (`${to}.ts` === target || `${to}/index.ts` === target) return null;
  if (within(path, OPEN_MODULES[target] ?? [])) return null;
  return `inside: ${target} is not the index of ${to}`;
}

/** Heavy packages that load with a light entry, found where they are imported. */
function weights(modules: ReadonlyMap<string, Module>): Violation[] {
  const found: Violation[] = [];
  for (const entry of [...modules.keys()].filter((path) => LIGHT.test(path))) {
    const loaded = new Set([entry]);
    for (const path of loaded) {
      for (const { specifier, kind, line } of modules.get(path)?.imports ?? []) {
        if (kind !== "static" || specifier === null) continue;
        if (specifier.startsWith(".")) loaded.add(resolve(path, specifier));
        const heavy = HEAVY.find((name) => `${specifier}/`.startsWith(`${name}/`));
        if (heavy) found.push({ path, line, rule: `weight: ${entry} loads ${heavy}` });
      }
    }
  }
  return found;
}

/** What of Node is reached from an entry that must run anywhere. */
function ties(modules: ReadonlyMap<string, Module>): Violation[] {
  const found: Violation[] = [];
  for (const entry of [...modules.keys()].filter((path) => ANYWHERE.test(path))) {
    const reached = new Set([entry]);
    for (const path of reached) {
      for (const { specifier, kind, line } of modules.get(path)?.imports ?? []) {
        if (kind === "type" || !specifier?.startsWith(".")) continue;
        const target = resolve(path, specifier);
        if (within(target, NODE)) found.push({ path, line, rule: `tie: ${entry} needs ${target}` });
        else reached.add(target);
      }
      for (const { name, line } of modules.get(path)?.uses ?? []) {
        if (name !== "process" || within(path, ASKS_FOR_PROCESS)) continue;
        found.push({ path, line, rule: `tie: ${entry} needs a process` });
      }
    }
  }
  return found;
}

/** Files that import each other in a ring, types included; what loads dynamically closes none. */
function cycles(modules: ReadonlyMap<string, Module>): Violation[] {
  const found: Violation[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]) => {
    if (done.has(path)) return;
    for (const { specifier, kind, line } of modules.get(path)?.imports ?? []) {
      if (kind === "dynamic" || !specifier?.startsWith(".")) continue;
      const target = resolve(path, specifier);
      const ring = [...trail, path];
      if (!ring.includes(target)) visit(target, ring);
      else {
        const names = [...ring.slice(ring.indexOf(target)), target];
        found.push({ path, line, rule: `cycle: ${names.join(" > ")}` });
      }
    }
    done.add(path);
  };
  for (const path of modules.keys()) visit(path, []);
  return found;
}

function unitOf(path: string): string {
  const [folder = "", next = ""] = path.replace(/\.ts$/, "").split("/");
  return folder === "stores" ? `stores/${next}` : folder;
}

/** In a folder of its own below stores/. */
function isEngine(path: string): boolean {
  return /^stores\/\w+\//.test(path);
}

function within(path: string, places: readonly string[]): boolean {
  return places.some((place) => (place.endsWith("/") ? path.startsWith(place) : path === place));
}

function resolve(path: string, specifier: string): string {
  return posix.join(dirname(path), specifier).replace(/\.js$/, ".ts");
}

it("holds for every source", () => {
  const root = new URL("../src/", import.meta.url);
  const paths = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
    .sort();
  expect(paths.length).toBeGreaterThan(20);
  const sources = new Map(paths.map((path) => [path, readFileSync(new URL(path, root), "utf8")]));
  const violations = check(sources).map((v) => `src/${v.path}:${v.line} ${v.rule}`);
  expect(violations.join("\n")).toBe("");
});

it("knows a place for every package that users install, and no other", () => {
  const installed = [...Object.keys(manifest.dependencies), ...OPTIONAL_PEERS];
  expect(Object.keys(PACKAGES).sort()).toEqual(installed.sort());
});

/** Planted faults: what each rule must catch, or must let pass. */
const FILES = {
  "control/index.ts": "export {};",
  "protocol/index.ts": 'import "zod";',
  "protocol/wire.ts": "export {};",
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
  ["protocol/a.ts", 'import { type A, b } from "../control/index.js";', "types only: control"],
  ["protocol/a.ts", 'import { type A, type B } from "../control/index.js";', null],
  ["tasks/a.ts", 'import "../lease/port.js";', "inside: lease/port.ts is not the index of lease"],
  ["server/a.ts", 'import "../tasks/port.js";', "inside: tasks/port.ts is not the index of tasks"],
  ["stores/memory/a.ts", 'import "../../tasks/port.js";', null],
  ["stores/http/a.ts", 'import "../../protocol/wire.js";', null],
  [
    "server/a.ts",
    'import "../protocol/wire.js";',
    "inside: protocol/wire.ts is not the index of protocol",
  ],
  ["stores/http/index.ts", 'import type { A } from "../../protocol/index.js";', null],
  ["lease/a.ts", 'import "./nowhere.js";', "missing: lease/nowhere.ts"],
  ["helpers/a.ts", "export {};", "folder: helpers is not in the table"],
  ["lease/a.ts", 'import { readFile } from "node:fs";', "node: node:fs"],
  ["server/a.ts", 'import "node:http";', "node: node:http"],
  ["server/listen.ts", 'import "node:http";', null],
  ["cli/a.ts", 'import "node:timers/promises";', "chance and clocks: node:timers/promises"],
  ["tasks/a.ts", 'import "hono/cors";', "package: hono"],
  ["server/a.ts", 'import "hono/cors";', null],
  ["server/a.ts", 'import "@hono/node-server/x";', "package: @hono/node-server"],
  ["lease/a.ts", 'import "left-pad";', "package: left-pad"],
  ["stores/postgres/a.ts", 'import { Pool } from "pg";', "optional peer: pg"],
  ["stores/postgres/a.ts", 'import type { Pool } from "pg"; await import("pg");', null],
  [
    "lease/a.ts",
    "const a = (b: string) => import(b);",
    "dynamic: only cli loads what it cannot name",
  ],
  ["lease/a.ts", "\n\nDate.now();", "clock: Date.now"],
  ["lease/a.ts", 'Date["now"]();', "clock: Date.now"],
  ["lease/a.ts", "const { now } = Date;", "clock: Date.now"],
  ["lease/a.ts", "new Date();", "clock: new Date()"],
  ["lease/a.ts", "new Date(5); ({ now: 1, performance: 2 });", null],
  ["lease/a.ts", "globalThis.performance.now();", "clock: performance"],
  ["cli/a.ts", "setTimeout(() => {}, 5);", "timer: setTimeout"],
  ["cli/a.ts", "const later = setImmediate;", "timer: setImmediate"],
  ["cli/a.ts", "type Handle = ReturnType<typeof setTimeout>;", null],
  ["lease/a.ts", "AbortSignal.timeout(5);", "timer: AbortSignal.timeout"],
  ["tasks/a.ts", "Math.random();", "chance: Math.random"],
  ["tasks/a.ts", "crypto.randomUUID();", "chance: crypto"],
  ["env/a.ts", "crypto.randomUUID(); setTimeout(Date.now); performance.now();", null],
  ["tasks/a.ts", "process.env.HOME;", "surroundings: process.env"],
  ["tasks/a.ts", "const { argv } = process;", "surroundings: process.argv"],
  ["cli/a.ts", "process.env.HOME;", null],
  ["tasks/a.ts", 'Buffer.from("a");', "node: Buffer"],
];
it.each(planted)("judges %s: %j as %s", (path, source, rule) => {
  const violations = check(new Map(Object.entries({ ...FILES, [path]: source })));
  const found = [...new Set(violations.map((violation) => violation.rule))];
  expect(found).toEqual(rule === null ? [] : [rule]);
  for (const violation of violations) expect(violation.path).toBe(path);
});

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
  const sources = { ...FILES, "stores/http/index.ts": 'import "../../protocol/index.js";' };
  const rule = "weight: stores/http/index.ts loads zod";
  const found = check(new Map(Object.entries(sources)));
  expect(found).toEqual([{ path: "protocol/index.ts", line: 1, rule }]);
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

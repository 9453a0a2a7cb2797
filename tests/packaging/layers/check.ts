/** Judges the sources of a package by its {@link Rules}: a violation names file, line and rule. */
import { dirname, posix } from "node:path";
import { type Import, type Module, readModule } from "../../support/documents/modules.js";

/** Where a list names paths below src/, a path with a slash at its end means all that is below it. */
export interface Rules {
  /** By unit: a folder of src/, one engine of stores/, or a file that stands alone. */
  readonly mayImport: Readonly<Record<string, readonly string[]>>;
  /** The unit of a file in the folder of a feature that has files of several units. Default: none. */
  readonly unitsOf?: Readonly<Record<string, string>>;
  /** A folder is imported through its index.ts, but for these, which bring little with them. */
  readonly openModules: Readonly<Record<string, readonly string[]>>;
  /** Only what is written here, as imports of types alone. */
  readonly typesOnly: Readonly<Record<string, readonly string[]>>;
  /** What programs and browsers load: nothing heavy may come with it. */
  readonly light: RegExp;
  readonly heavy: readonly string[];
  /** What runs wherever JavaScript does: nothing of Node may be reached from here, however late. */
  readonly anywhere: RegExp;
  /** These ask first whether there is a process. */
  readonly asksForProcess: readonly string[];
  /** These alone may import node:* and use Buffer. */
  readonly node: readonly string[];
  /** These alone may read process.env and process.argv. */
  readonly surroundings: readonly string[];
  /** These alone may name clocks, timers and chance, so that tests can inject them. */
  readonly clock: readonly string[];
  /** These may load a module that the user names. */
  readonly loadsAnything: readonly string[];
  /** Packages and who may import them; all else is forbidden. */
  readonly packages: Readonly<Record<string, readonly string[]>>;
  /** Loaded when they are needed, and not with the file, except for those that are `needed`. */
  readonly optionalPeers: readonly string[];
  readonly needed: readonly string[];
}

/** Globals, and which rule says who may name them. */
const GLOBALS: readonly {
  names: RegExp;
  only: "clock" | "surroundings" | "node";
  rule: string;
}[] = [
  { names: /^(Date\.now|Date\(\)|new Date\(\)|performance)$/, only: "clock", rule: "clock" },
  {
    names: /^((set|clear)(Timeout|Interval|Immediate)|AbortSignal\.timeout|process\.hrtime)$/,
    only: "clock",
    rule: "timer",
  },
  { names: /^(Math\.random|crypto)$/, only: "clock", rule: "chance" },
  { names: /^process\.(env|argv)$/, only: "surroundings", rule: "surroundings" },
  { names: /^(Buffer|require|__dirname|__filename)$/, only: "node", rule: "node" },
];
/** Node's own names for the same. */
const NODE_CLOCKS = /^node:(timers|timers\/promises|perf_hooks|crypto)$/;

const MOST_LINES = 400;

export interface Violation {
  readonly path: string;
  readonly line: number;
  readonly rule: string;
}

/** @param sources text by path below src/ */
export function check(rules: Rules, sources: ReadonlyMap<string, string>): Violation[] {
  const violations: Violation[] = [];
  const modules = new Map<string, Module>();
  for (const [path, source] of sources) modules.set(path, readModule(path, source));
  for (const [path, module] of modules) {
    const report = (line: number, rule: string) => violations.push({ path, line, rule });
    const unit = unitOf(rules, path);
    if (!(unit in rules.mayImport)) report(1, `folder: ${unit} is not in the table`);
    if (module.lines > MOST_LINES) report(MOST_LINES, `length: more than ${MOST_LINES} lines`);
    for (const reached of module.imports) {
      const rule = checkImport(rules, path, reached, modules);
      if (rule) report(reached.line, rule);
    }
    for (const { name, line } of module.uses) {
      for (const { names, only, rule } of GLOBALS) {
        if (names.test(name) && !within(path, rules[only])) report(line, `${rule}: ${name}`);
      }
    }
  }
  return [...violations, ...weights(rules, modules), ...ties(rules, modules), ...cycles(modules)];
}

function checkImport(
  rules: Rules,
  path: string,
  { specifier, kind }: Import,
  modules: ReadonlyMap<string, Module>,
): string | null {
  if (specifier === null) {
    return within(path, rules.loadsAnything) ? null : "dynamic: loads what it cannot name";
  }
  if (specifier.startsWith("node:")) {
    if (!within(path, rules.node)) return `node: ${specifier}`;
    const isClock = NODE_CLOCKS.test(specifier) && !within(path, rules.clock);
    return isClock ? `chance and clocks: ${specifier}` : null;
  }
  if (!specifier.startsWith(".")) {
    const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
    if (!within(path, rules.packages[name] ?? [])) return `package: ${name}`;
    const isLate = rules.optionalPeers.includes(name) && !rules.needed.includes(name);
    return isLate && kind === "static" ? `optional peer: ${name}` : null;
  }
  const target = resolve(path, specifier);
  if (!modules.has(target)) return `missing: ${target}`;
  const [from, to] = [unitOf(rules, path), unitOf(rules, target)];
  if (from === to) return null;
  const allowed = rules.mayImport[from] ?? [];
  if (!allowed.includes(to) && !(to.startsWith("stores/") && allowed.includes("stores/*"))) {
    return `layers: ${from} imports ${to}`;
  }
  if (rules.typesOnly[from]?.includes(to) && kind !== "type") return `types only: ${to}`;
  if (from.startsWith("stores/open") && isEngine(target) && kind === "static") {
    return "engines are loaded when opened";
  }
  if (`${to}.ts` === target || `${to}/index.ts` === target) return null;
  if (within(path, rules.openModules[target] ?? [])) return null;
  return `inside: ${target} is not the index of ${to}`;
}

/** Heavy packages that load with a light entry, found where they are imported. */
function weights(rules: Rules, modules: ReadonlyMap<string, Module>): Violation[] {
  const found: Violation[] = [];
  for (const entry of [...modules.keys()].filter((path) => rules.light.test(path))) {
    const loaded = new Set([entry]);
    for (const path of loaded) {
      for (const { specifier, kind, line } of modules.get(path)?.imports ?? []) {
        if (kind !== "static" || specifier === null) continue;
        if (specifier.startsWith(".")) loaded.add(resolve(path, specifier));
        const heavy = rules.heavy.find((name) => `${specifier}/`.startsWith(`${name}/`));
        if (heavy) found.push({ path, line, rule: `weight: ${entry} loads ${heavy}` });
      }
    }
  }
  return found;
}

/** What of Node is reached from an entry that must run anywhere. */
function ties(rules: Rules, modules: ReadonlyMap<string, Module>): Violation[] {
  const found: Violation[] = [];
  for (const entry of [...modules.keys()].filter((path) => rules.anywhere.test(path))) {
    const reached = new Set([entry]);
    for (const path of reached) {
      for (const { specifier, kind, line } of modules.get(path)?.imports ?? []) {
        if (kind === "type" || !specifier?.startsWith(".")) continue;
        const target = resolve(path, specifier);
        if (within(target, rules.node))
          found.push({ path, line, rule: `tie: ${entry} needs ${target}` });
        else reached.add(target);
      }
      for (const { name, line } of modules.get(path)?.uses ?? []) {
        if (name !== "process" || within(path, rules.asksForProcess)) continue;
        found.push({ path, line, rule: `tie: ${entry} needs a process` });
      }
    }
  }
  return found;
}

/** Files that import each other in a ring, types included; what loads dynamically closes none. */
export function cycles(modules: ReadonlyMap<string, Module>): Violation[] {
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

function unitOf({ unitsOf = {} }: Rules, path: string): string {
  const own = unitsOf[path];
  if (own !== undefined) return own;
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

/**
 * Which tests are near a source, nearest first:
 *
 *   beside       in its folder, those that are named after it before the others
 *   of its part  in the folders above it up to that of its layer, those that import it, and those of what a store keeps
 *   of its store the conformance suites, the tests of the engine and of its faults, and those that run on several engines
 *   of the world the simulation's share of `npm test`, of what does not depend on an engine
 *
 * Not among them are tests that would fail with any change, and so prove nothing: those that run the built command line,
 * which refuse a build that is older than the sources, and those that compare a list of files with a copy of it.
 */
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const OF_STORES = ["tests/conformance", "tests/engines", "tests/faults", "tests/operations"];
const OF_SEVERAL_ENGINES = /support\/engines\/control-engines\.js/;
const SIMULATION = "verification/simulation/simulation.test.ts";
/** What the simulation runs in its place, or not at all. */
const NOT_SIMULATED = /\/src\/(stores\/(?!memory|http)|testing\/|instrumentation\/)/;
/** The engines of those. */
const SEVERAL = ["postgres", "memory", "http"];
const FAILS_WITH_ANY_CHANGE = /support\/processes\/cli\.js|expectNoSecrets|UPDATE_GOLDEN/;
/** What a store keeps, by the first word of its file, and the folder of it in the library. */
const KEPT_IN = {
  task: "tasks",
  once: "once",
  schedule: "tasks/schedules",
  control: "control",
};

const texts = new Map();
const textOf = (test) => {
  if (!texts.has(test)) texts.set(test, readFileSync(join(root, test), "utf8"));
  return texts.get(test);
};

const testsIn = (folder, recursive = false) =>
  readdirSync(join(root, folder), { recursive, encoding: "utf8" })
    .filter((path) => path.endsWith(".test.ts"))
    .map((path) => `${folder}/${path}`)
    .filter((test) => !FAILS_WITH_ANY_CHANGE.test(textOf(test)))
    .sort();

/** Without the plural: `tasks-postgres` and `task-postgres` are about the same. */
const wordsOf = (path) => path.split(/[/.-]/).map((word) => word.replace(/s$/, ""));
const ANY_SUITE = new Set(wordsOf("conformance-faults"));

/** By itself, and not by way of another file. */
function imports(test, source) {
  const [...found] = textOf(test).matchAll(/ from "(\..+)\.js"/g);
  return found.some(([, path]) => join(dirname(test), `${path}.ts`) === source);
}

/** @returns the tests of each step */
function stepsFor(source) {
  const own = basename(source).replace(/\.(ts|js)$/, "");
  const isNamedAfter = (test) => basename(test).startsWith(own);
  const beside = testsIn(dirname(source));
  const first = [beside.filter(isNamedAfter), beside];
  // Programs of the verification have no layers.
  if (!source.startsWith("packages/")) return [...first, [], [], []];
  const [, name, ...path] = source.slice(0, -".ts".length).split("/");
  const src = `packages/${name}/src`;
  const [layer, ...inner] = path.slice(1, -1);
  const folders = inner.map((_, at) => [src, layer, ...inner.slice(0, at)].join("/")).reverse();
  const store = layer === "stores" ? inner[0] : undefined;
  const kept = store && KEPT_IN[wordsOf(own)[0]];
  const words = new Set(wordsOf(path.join("/")));
  const concerns = (test) => {
    const about = wordsOf(basename(test, ".test.ts")).filter((word) => !ANY_SUITE.has(word));
    if (store && about.includes(wordsOf(store)[0])) return true;
    if (SEVERAL.includes(store) && OF_SEVERAL_ENGINES.test(textOf(test))) return true;
    return about.every((word) => words.has(word));
  };
  return [
    ...first,
    [
      ...folders.flatMap((folder) => testsIn(folder)),
      ...testsIn(src, true).filter((test) => imports(test, source)),
      ...(kept ? testsIn(`${src}/${kept}`) : []),
    ],
    OF_STORES.flatMap((folder) => testsIn(folder).filter(concerns)),
    NOT_SIMULATED.test(source) ? [] : [SIMULATION],
  ];
}

/** The tests near any of the sources, in steps; each test stands in the first of its steps. */
export function testsNear(sources) {
  const seen = new Set();
  const bySource = sources.map(stepsFor);
  return bySource[0].map((_, step) => {
    const tests = new Set(bySource.flatMap((steps) => steps[step]));
    const fresh = [...tests].filter((test) => !seen.has(test));
    for (const test of fresh) seen.add(test);
    return fresh;
  });
}

// Runs two versions of the packages beside each other, as a fleet does while it is upgraded: the last release in the history of
// the repository, or while there is none the sources as they are, and the sources with what a later release may add.
//
//   npm run verify -- upgrade                     on each engine that is installed, and through servers
//   npm run verify -- upgrade --only postgres     one of them; --only repeats
//
// Prints each step when it has been seen. Ends with 1 at the first that does not come, with 130 at Ctrl-C, when it has
// ended what it started.
import pc from "picocolors";
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../support/arguments.js";

const { values } = argumentsOf(import.meta.url, {
  options: { only: { type: "string", multiple: true } },
});

const sources = await openSources();
const load = (/** @type {string} */ path) => sources.load(path);
const { buildVersions } = await load("/verification/upgrade/versions.ts");
const { onLeases, onPostgres, onServers } = await load("/verification/upgrade/story.ts");
const { ENGINES } = await load("/verification/matrix/engines.ts");
const { endAll } = await load("/tests/support/processes/processes.ts");

/** @typedef {{ url(): Promise<string>, close(): Promise<void> }} Running */
/** @typedef {{ missing(): Promise<string | null>, start(program: string): Promise<Running> }} Engine */
/** @type {(name: string) => Engine} */
const engineOf = (name) =>
  ENGINES.find((/** @type {{ name: string }} */ each) => each.name === name);
/** @type {Record<string, { engine: Engine, story: Function }>} */
const STORIES = {
  postgres: { engine: engineOf("postgres"), story: onPostgres },
  servers: { engine: engineOf("postgres"), story: onServers },
};
for (const name of ["redis", "etcd", "zookeeper", "consul", "kubernetes"]) {
  STORIES[name] = { engine: engineOf(name), story: onLeases };
}
const names = values.only ?? Object.keys(STORIES);
const unknown = names.find((/** @type {string} */ name) => !(name in STORIES));
if (unknown !== undefined) {
  console.error(`no story "${unknown}"; there are ${Object.keys(STORIES).join(", ")}`);
  await sources.close();
  process.exit(64);
}

let stopped = false;
process.once("SIGINT", () => {
  console.error("stopped; ending what was started");
  stopped = true;
});

let versions;
try {
  versions = await buildVersions();
  console.log(`old: ${versions.old.of}; next: ${versions.next.of}`);
  for (const name of names) {
    const { engine, story } = STORIES[name];
    console.log(pc.bold(`\n${name}`));
    const missing = await engine.missing();
    if (missing !== null) {
      console.log(`  left out: ${missing}`);
      continue;
    }
    const running = await engine.start(versions.old.program);
    try {
      // The matrix wants short sessions; these are to outlive a busy machine.
      const url = (await running.url()).replace(/\?session\w+=\d+$/, "");
      for await (const step of story(versions, url)) {
        console.log(`  ${pc.green("ok")} ${step}`);
        if (stopped) break;
      }
    } finally {
      await running.close();
    }
    if (stopped) break;
  }
} catch (error) {
  if (!stopped) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
} finally {
  await endAll();
  await versions?.remove();
  await sources.close();
}
if (stopped) process.exitCode = 130;

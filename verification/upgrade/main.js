// Runs two versions of the packages beside each other, as a fleet does while it is upgraded: the last release in the history of
// the repository, or while there is none the sources as they are, and the sources with what a later release may add.
//
//   npm run test:upgrade                        on PostgreSQL, on Redis and through servers
//   npm run test:upgrade -- --only postgres     one of them; --only repeats
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
const { onPostgres, onRedis, onServers } = await load("/verification/upgrade/story.ts");
const { startPostgres } = await load("/tests/support/postgres-engine.ts");
const { missingRedis, startRedis } = await load("/tests/support/redis-engine.ts");
const { endAll } = await load("/tests/support/processes.ts");

/** @type {Record<string, { start: () => Promise<{ url: string, remove(): Promise<void> }>, story: Function, missing?: string | null }>} */
const STORIES = {
  postgres: { start: startPostgres, story: onPostgres },
  redis: { start: startRedis, story: onRedis, missing: missingRedis() },
  servers: { start: startPostgres, story: onServers },
};
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
    const { start, story, missing } = STORIES[name];
    console.log(pc.bold(`\n${name}`));
    if (missing) {
      console.log(`  left out: ${missing}`);
      continue;
    }
    const engine = await start();
    try {
      for await (const step of story(versions, engine.url)) {
        console.log(`  ${pc.green("ok")} ${step}`);
        if (stopped) break;
      }
    } finally {
      await engine.remove();
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

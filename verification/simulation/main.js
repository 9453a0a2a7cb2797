// `npm run verify -- sim`: the command of command.ts, compiled with the packages' sources.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { compilePrograms } from "../../scripts/support/sources.js";

const here = fileURLToPath(new URL(".", import.meta.url));
// Inside node_modules, so that packages are found from there.
const folder = mkdtempSync(join(here, "../../node_modules/.leasehold-simulation-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
await compilePrograms(
  { command: join(here, "command.ts"), worker: join(here, "worker.ts") },
  folder,
);
const { simulate } = await import(pathToFileURL(join(folder, "command.js")).href);
await simulate(process.argv);

// Builds the packages' dist/ folders: the library, the server with the console and the simulator, and what makes projects. Each build goes to
// a new folder, which then replaces dist/. So a deleted source leaves no stale module behind. A program that
// starts from dist/ meanwhile (npx builds on its first call) finds either the old build or the new one, never
// a mixture.
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { readJson, repositoryOf } from "./release/facts.js";
import { PUBLISHED } from "./support/packages.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const { resolve } = createRequire(import.meta.url);
const tsc = join(dirname(resolve("typescript/package.json")), "bin", "tsc");
const vite = join(dirname(resolve("vite/package.json")), "bin", "vite.js");
const QUIETLY = ["--logLevel", "warn"];

const isBuilt =
  build("packages/leasehold", () => true) &&
  // The server compiles against the library's new build, as users' code does.
  build("packages/leasehold-server", (made) => {
    chmodSync(join(made, "cli", "main.js"), 0o755);
    // The tasks of `leasehold demo`.
    cpSync(join(root, "examples/sleep.js"), join(made, "demo/sleep.js"));
    return ["console", "simulator"].every((app) =>
      run(vite, "build", `apps/${app}`, "--outDir", join(made, "web"), ...QUIETLY),
    );
  }) &&
  build("packages/create-leasehold", (made) => {
    chmodSync(join(made, "main.js"), 0o755);
    return true;
  });
if (isBuilt) {
  // npm packs only files inside a package's folder.
  for (const name of PUBLISHED) copy("LICENSE", `packages/${name}/LICENSE`);
  // Each error message links to its section of this file.
  copyPage("docs/errors.md", "packages/leasehold/docs/errors.md");
} else {
  process.exitCode = 1;
}

/** @param {string} path of the package @param {(made: string) => boolean} finish @returns whether it succeeded */
function build(path, finish) {
  const folder = mkdtempSync(join(root, path, "dist-"));
  try {
    const made = join(folder, "new");
    const isDone = run(tsc, "-p", `${path}/tsconfig.build.json`, "--outDir", made) && finish(made);
    if (isDone) replace(join(root, path, "dist"), made, join(folder, "old"));
    return isDone;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function run(...args) {
  return spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" }).status === 0;
}

function copy(from, to) {
  mkdirSync(join(root, dirname(to)), { recursive: true });
  cpSync(join(root, from), join(root, to));
}

/** Links to other pages lead to the repository, because the package does not have them. */
function copyPage(from, to) {
  const page = `${repositoryOf(readJson(join(root, "package.json")))}/blob/main/${from}`;
  const text = readFileSync(join(root, from), "utf8");
  const linked = text.replace(/(?<=\]\()(?!#|[a-z]+:)[^)\s]+/g, (link) => `${new URL(link, page)}`);
  mkdirSync(join(root, dirname(to)), { recursive: true });
  writeFileSync(join(root, to), linked);
}

function replace(path, by, aside) {
  try {
    renameSync(path, aside);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  renameSync(by, path);
}

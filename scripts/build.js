// Builds dist/ from src/ and dist/web from web/, beside the old one and then in its place: a deleted
// source leaves no stale module behind, and programs that run from dist/ meanwhile (npx builds anew on
// its first call) find either all of the old modules or all of the new ones.
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const { resolve } = createRequire(import.meta.url);
const tsc = join(dirname(resolve("typescript/package.json")), "bin", "tsc");
const vite = join(dirname(resolve("vite/package.json")), "bin", "vite.js");
const QUIETLY = ["--logLevel", "warn"];
const folder = mkdtempSync(join(root, "dist-"));
try {
  const made = join(folder, "new");
  const compiled = run(tsc, "-p", "tsconfig.build.json", "--outDir", made);
  const bundled = compiled && run(vite, "build", "web", "--outDir", join(made, "web"), ...QUIETLY);
  if (bundled) {
    chmodSync(join(made, "cli", "main.js"), 0o755);
    replace(join(root, "dist"), made, join(folder, "old"));
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Whether it went well; if not, this process ends with 1 in the end. */
function run(...args) {
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  if (status !== 0) process.exitCode = 1;
  return status === 0;
}

function replace(path, by, aside) {
  try {
    renameSync(path, aside);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  renameSync(by, path);
}

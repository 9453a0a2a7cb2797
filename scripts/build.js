// Builds dist/ from src/, beside the old one and then in its place: a deleted source leaves no stale
// module behind, and programs that run from dist/ meanwhile (npx builds anew on its first call) find
// either all of the old modules or all of the new ones.
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const manifest = createRequire(import.meta.url).resolve("typescript/package.json");
const tsc = join(dirname(manifest), "bin", "tsc");
const folder = mkdtempSync(join(root, "dist-"));
try {
  const made = join(folder, "new");
  const compile = [tsc, "-p", "tsconfig.build.json", "--outDir", made];
  const { status } = spawnSync(process.execPath, compile, { cwd: root, stdio: "inherit" });
  process.exitCode = status ?? 1;
  if (status === 0) {
    chmodSync(join(made, "cli", "main.js"), 0o755);
    replace(join(root, "dist"), made, join(folder, "old"));
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function replace(path, by, aside) {
  try {
    renameSync(path, aside);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  renameSync(by, path);
}

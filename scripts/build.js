// Builds dist/ from src/: cleans first, so that a deleted source leaves no stale module behind.
import { spawnSync } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = new URL("..", import.meta.url);
const manifest = createRequire(import.meta.url).resolve("typescript/package.json");
const tsc = join(dirname(manifest), "bin", "tsc");
rmSync(new URL("dist", root), { recursive: true, force: true });
const { status } = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], {
  cwd: fileURLToPath(root),
  stdio: "inherit",
});
if (status !== 0) process.exit(status ?? 1);
chmodSync(new URL("dist/cli/main.js", root), 0o755);

// Builds dist/ from src/: cleans first, so that a deleted source leaves no stale module behind.
import { execFileSync } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { createRequire } from "node:module";

const root = new URL("..", import.meta.url);
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
rmSync(new URL("dist", root), { recursive: true, force: true });
execFileSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
chmodSync(new URL("dist/cli/main.js", root), 0o755);

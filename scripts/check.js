// Everything that a change must pass besides the tests, each step even if one before it failed.
// What a step prints is shown only when it fails.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "leasehold-check-"));
const tarball = () => join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "");

/** @type {[name: string, command: string, args: () => string[]][]} */
const steps = [
  ["build", "node", () => ["scripts/build.js"]],
  ["types", "npm", () => ["run", "typecheck"]],
  // They see the package as its users do.
  ["types of the examples", "tsc", () => ["-p", "examples"]],
  ["lint", "npm", () => ["run", "lint"]],
  ["format", "biome", () => ["check", "--error-on-warnings", "."]],
  ["unused code", "knip", () => ["--treat-config-hints-as-errors"]],
  // Exports that only tests use are marked @internal. Which packages may be used says test/layers.
  [
    "unused in production",
    "knip",
    () => ["--production", "--exclude", "unlisted", "--tags=-internal"],
  ],
  [
    "layers, package, hygiene",
    "vitest",
    () => ["run", ...["layers", "package", "hygiene"].map((name) => `test/${name}.test.ts`)],
  ],
  ["pack", "npm", () => ["pack", "--ignore-scripts", "--pack-destination", folder]],
  ["publint", "publint", () => [tarball(), "--strict"]],
  ["types of the package", "attw", () => [tarball(), "--profile", "esm-only"]],
];

const failed = [];
const PATH = [join(root, "node_modules", ".bin"), process.env.PATH].join(delimiter);
for (const [name, command, args] of steps) {
  const begin = performance.now();
  const { status, stdout, stderr, error } = spawnSync(command, args(), {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, PATH },
    shell: process.platform === "win32",
  });
  const seconds = ((performance.now() - begin) / 1_000).toFixed(1);
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${name} (${seconds} s)`);
  if (status === 0) continue;
  failed.push(name);
  console.log([stdout, stderr, error].filter(Boolean).join("\n"));
}
rmSync(folder, { recursive: true, force: true });
if (failed.length > 0) {
  console.log(`failed: ${failed.join(", ")}`);
  process.exitCode = 1;
}

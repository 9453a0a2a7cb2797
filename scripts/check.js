// Runs everything that a change must pass besides the tests. All steps run, even after a failure.
// A step's output is shown only if it fails.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { PUBLISHED } from "./support/packages.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "leasehold-check-"));
const { version } = JSON.parse(readFileSync(join(root, "packages/leasehold/package.json"), "utf8"));
/** The path of a package's tarball, by npm's naming scheme. */
const tarball = (name) => join(folder, `${name}-${version}.tgz`);
/** Those that programs import. */
const IMPORTED = ["leasehold", "leasehold-server"];

/** @type {[name: string, command: string, args: () => string[]][]} */
const steps = [
  ["build", "node", () => ["scripts/build.js"]],
  // The reports are in packages/leasehold/api.
  ["API report", "node", () => ["scripts/api-report.js"]],
  ["types", "npm", () => ["run", "typecheck"]],
  // The examples compile against the built packages, as users' code does.
  ["types of the examples", "tsc", () => ["-p", "examples"]],
  ["lint", "npm", () => ["run", "lint"]],
  ["format", "biome", () => ["check", "--error-on-warnings", "."]],
  ["version and repository", "node", () => ["scripts/release/places.js", "--check"]],
  // The words are listed in scripts/words/retired.yml.
  ["retired words", "node", () => ["scripts/words/check.js"]],
  ["unused code", "knip", () => ["--treat-config-hints-as-errors"]],
  // Exports that only tests use are marked @internal. tests/packaging/layers checks which packages are allowed.
  [
    "unused in production",
    "knip",
    () => ["--production", "--exclude", "unlisted", "--tags=-internal"],
  ],
  ["tests of the repository", "vitest", () => ["run", "--project=repository"]],
  [
    "pack",
    "npm",
    () => [
      "pack",
      "--ignore-scripts",
      "--pack-destination",
      folder,
      ...PUBLISHED.flatMap((name) => ["--workspace", name]),
    ],
  ],
  ...PUBLISHED.map((name) => [`publint ${name}`, "publint", () => [tarball(name), "--strict"]]),
  ...IMPORTED.map((name) => [
    `types of ${name}`,
    "attw",
    () => [tarball(name), "--profile", "esm-only"],
  ]),
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
    // Ample on a busy machine. The step that hangs is named, with the error that it timed out.
    timeout: 1_200_000,
    killSignal: "SIGKILL",
  });
  const seconds = ((performance.now() - begin) / 1_000).toFixed(1);
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${name} (${seconds} s)`);
  // The counts of tests, for the sum of all tiers.
  const counts = /^\d+ passed, \d+ failed, \d+ skipped$/m.exec(stdout ?? "");
  if (status === 0 && counts) console.log(counts[0]);
  if (status === 0) continue;
  failed.push(name);
  console.log([stdout, stderr, error].filter(Boolean).join("\n"));
}
rmSync(folder, { recursive: true, force: true });
if (failed.length > 0) {
  console.log(`failed: ${failed.join(", ")}`);
  process.exitCode = 1;
}

/** Jest and ts-jest, with the settings that packages/leasehold/README.md names. */
import { cp, mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { run } from "./program.js";
import type { Row } from "./row.js";
import { binary, binaryMissing } from "./runtimes.js";
import { MODULES, type Site } from "./site.js";

/** What the settings name, which a user installs beside Jest. */
const TOOLS = ["babel-jest", "ts-jest", "typescript", "@babel/preset-env"];
const VM_MODULES = "--experimental-vm-modules";

interface Setting {
  readonly name: string;
  readonly tries: string;
  readonly node: string;
  /** Which of programs/jest, such as `mjs`. */
  readonly tests: string;
  /** Of programs/jest. Default: none. */
  readonly config?: string;
  readonly flags?: readonly string[];
  readonly type?: "module";
  readonly quick?: boolean;
  readonly fails?: Row["fails"];
}

const SETTINGS: readonly Setting[] = [
  {
    name: "Jest 30: ES modules",
    tries: `tests in .mjs, with ${VM_MODULES}`,
    node: "Node 20.19",
    tests: "mjs",
    flags: [VM_MODULES],
    quick: true,
  },
  {
    name: "Jest 30: require",
    tries: "tests in .cjs, without settings",
    node: "Node 24",
    tests: "cjs",
    fails: { reason: `Jest requires ES modules only with ${VM_MODULES}`, as: /SyntaxError|ESM/ },
  },
  {
    name: "Jest 30: require on Node 24",
    tries: `tests in .cjs, with ${VM_MODULES}`,
    node: "Node 24",
    tests: "cjs",
    flags: [VM_MODULES],
  },
  {
    name: "Jest 30: require by Babel",
    tries: "tests in .cjs, with a transform",
    node: "Node 20.19",
    tests: "cjs",
    config: "jest.babel.cjs",
  },
  {
    name: "ts-jest 29: CommonJS",
    tries: "tests in .ts, with a transform",
    node: "Node 20.19",
    tests: "ts",
    config: "jest.ts-jest.cjs",
  },
  {
    name: "ts-jest 29: ES modules",
    tries: `tests in .ts, with ${VM_MODULES}`,
    node: "Node 20.19",
    tests: "ts",
    config: "jest.ts-jest-modules.cjs",
    flags: [VM_MODULES],
    type: "module",
  },
];

export const JEST_ROWS: readonly Row[] = SETTINGS.map(
  ({ name, tries, node, tests, config, flags = [], type, quick, fails }) => ({
    name,
    tries,
    ...(quick !== undefined && { quick }),
    ...(fails && { fails }),
    missing: () => binaryMissing(node),
    async run(site) {
      const folder = await jestProject(site, type);
      const jest = join(MODULES, "jest/bin/jest.js");
      const args = ["--no-cache", "--testMatch", `**/*.spec.${tests}`];
      if (config !== undefined) args.push("--config", config);
      await run(binary(node), [...flags, jest, ...args], { cwd: folder });
    },
  }),
);

async function jestProject(site: Site, type?: string): Promise<string> {
  const project = await site.bare();
  for (const tool of TOOLS) {
    const path = join(project, "node_modules", tool);
    await mkdir(dirname(path), { recursive: true });
    await symlink(join(MODULES, tool), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
  const folder = join(project, `jest-${type ?? "commonjs"}`);
  await cp(join(project, "programs/jest"), folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify({ type }));
  return folder;
}

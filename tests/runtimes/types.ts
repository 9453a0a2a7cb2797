/** The types of the packages, as compilers of users read them: without `skipLibCheck`. */
import { cp, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "./program.js";
import type { Row } from "./row.js";
import { publicEntries } from "./runtimes.js";
import { MODULES, type Site } from "./site.js";

/** The first that knows `require` of ES modules is 5.8. */
const VERSIONS = ["5.6", "5.7", "5.8", "5.9", "6", "7"] as const;
type Version = (typeof VERSIONS)[number];

const MODES = {
  NodeNext: { module: "NodeNext" },
  Node16: { module: "Node16" },
  bundler: { module: "ESNext", moduleResolution: "bundler" },
};
const STRICT = { strict: true, target: "ES2022", noEmit: true, skipLibCheck: false };

const typescript = (version: Version) =>
  join(MODULES, version === "5.9" ? "typescript" : `typescript-${version}`, "bin/tsc");

export const TYPE_ROWS: readonly Row[] = VERSIONS.flatMap((version) => {
  const isFast = version === "7";
  return [
    {
      name: `TypeScript ${version}: library`,
      tries: "NodeNext, Node16 and bundler, lib ES2022, @types/node, no driver's types",
      quick: isFast,
      run: async (site) => compileModes(version, await site.bare(), ["leasehold"]),
    },
    {
      name: `TypeScript ${version}: server`,
      tries: "NodeNext, Node16 and bundler, lib ES2022, @types/node",
      quick: isFast,
      ...(version === "5.6" && {
        fails: { reason: "Hono's types need TypeScript 5.7", as: /hono\/dist\S+ error TS2315/ },
      }),
      run: async (site) =>
        compileModes(version, await site.full(), ["leasehold", "leasehold-server"]),
    },
    {
      name: `TypeScript ${version}: browser`,
      tries: "bundler, lib ES2022 and DOM, without @types/node",
      quick: isFast,
      run: (site) => compileForBrowser(version, site),
    },
    {
      name: `TypeScript ${version}: CommonJS`,
      tries: "NodeNext, a .cts file that requires",
      quick: isFast,
      ...(["5.6", "5.7"].includes(version) && {
        fails: { reason: "TypeScript knows require of ES modules from 5.8 on", as: /TS1479/ },
      }),
      run: (site) => compileCommonJs(version, site),
    },
  ];
});

async function compileModes(version: Version, project: string, names: string[]): Promise<void> {
  const folder = join(project, `types-${version}`);
  await mkdir(folder);
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  await writeEntries(folder, project, names);
  for (const name of names) {
    await cp(join(project, "programs", `${name}.ts`), join(folder, `${name}.ts`));
  }
  await withTypesOfNode(folder, version);
  const files = ["entries.ts", ...names.map((name) => `${name}.ts`)];
  for (const [mode, options] of Object.entries(MODES)) {
    await compile(version, folder, mode, files, { ...options, lib: ["ES2022"], types: ["node"] });
  }
}

/** A module with everything that the packages export. */
async function writeEntries(folder: string, project: string, names: string[]): Promise<void> {
  const entries = await publicEntries(project, names);
  // Without the server, the user has no OpenTelemetry, which this entry is for.
  const used = names.length > 1 ? entries : entries.filter((each) => !each.endsWith("/telemetry"));
  const text = used.map((entry, at) => `export * as m${at} from "${entry}";\n`).join("");
  await writeFile(join(folder, "entries.ts"), text);
}

async function compileForBrowser(version: Version, site: Site): Promise<void> {
  const project = await site.bare();
  const folder = join(project, `types-${version}-browser`);
  await mkdir(folder);
  await cp(join(project, "programs/page.ts"), join(folder, "page.ts"));
  await writeEntries(folder, project, ["leasehold"]);
  const files = ["page.ts", "entries.ts"];
  const lib = ["ES2022", "DOM"];
  await compile(version, folder, "page", files, { ...MODES.bundler, lib, types: [] });
}

async function compileCommonJs(version: Version, site: Site): Promise<void> {
  const project = await site.bare();
  const folder = join(project, `types-${version}-commonjs`);
  await mkdir(folder);
  await withTypesOfNode(folder, version);
  const text = 'import { connect } from "leasehold";\nvoid connect("memory:");\n';
  await writeFile(join(folder, "use.cts"), text);
  const options = { ...MODES.NodeNext, lib: ["ES2022"], types: ["node"] };
  await compile(version, folder, "commonjs", ["use.cts"], options);
}

/** Of the oldest Node for the oldest compiler. */
async function withTypesOfNode(folder: string, version: Version): Promise<void> {
  await mkdir(join(folder, "node_modules/@types"), { recursive: true });
  const types = version === "5.6" ? "types-node-20" : "@types/node";
  await symlink(join(MODULES, types), join(folder, "node_modules/@types/node"));
}

async function compile(
  version: Version,
  folder: string,
  name: string,
  files: readonly string[],
  options: object,
): Promise<void> {
  const file = `tsconfig.${name}.json`;
  const config = { compilerOptions: { ...STRICT, ...options }, files };
  await writeFile(join(folder, file), JSON.stringify(config));
  await run(process.execPath, [typescript(version), "-p", file], { cwd: folder });
}

/** The packages as their users get them: export maps, contents, and each entry in an empty project. */
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import {
  access,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { folderOf, PACKAGES, type PackageName, pack } from "../support/documents/packages.js";
import { checkBuild } from "../support/processes/cli.js";

const run = promisify(execFile);
/** Of the default stores: the server brings them, the library goes without. */
const DRIVERS = ["pg", "@electric-sql/pglite"];
const root = fileURLToPath(new URL("../..", import.meta.url));

interface Entry {
  readonly types: string;
  readonly browser?: string;
  readonly node?: string;
  readonly default: string;
}
interface Manifest {
  readonly version: string;
  readonly files: readonly string[];
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string | Entry>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { optional?: boolean }>>;
}
const manifests = Object.fromEntries(
  await Promise.all(
    PACKAGES.map(async (name) => {
      const text = await readFile(join(folderOf(name), "package.json"), "utf8");
      return [name, JSON.parse(text) as Manifest] as const;
    }),
  ),
) as Record<PackageName, Manifest>;
/** What can be imported without doing anything, by package. */
const entries = PACKAGES.flatMap((name) =>
  Object.entries(manifests[name].exports).flatMap(([path, entry]) =>
    typeof entry === "object" ? [{ name, subpath: path, entry }] : [],
  ),
);
const specifiers = entries.map(({ name, subpath }) => `${name}${subpath.slice(1)}`);

let folder: string;
const packed = new Map<PackageName, readonly string[]>();
beforeAll(async () => {
  checkBuild();
  folder = await mkdtemp(join(tmpdir(), "leasehold-package-"));
  for (const name of PACKAGES) {
    const { tarball, files } = await pack(name, folder);
    packed.set(name, files);
    const home = join(folder, "node_modules", name);
    await mkdir(home, { recursive: true });
    await run("tar", ["-xzf", tarball, "--strip-components=1", "-C", home]);
  }
  // Their dependencies, and none of their optional peers; but for the drivers that the server brings.
  const needed = PACKAGES.flatMap((name) => Object.keys(manifests[name].dependencies));
  for (const name of needed.filter((name) => name !== "leasehold" && !DRIVERS.includes(name))) {
    await mkdir(dirname(join(folder, "node_modules", name)), { recursive: true });
    await symlink(join(root, "node_modules", name), join(folder, "node_modules", name));
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the export map", () => {
  it("names built files that come from sources, as types and as code", async () => {
    for (const { name, entry } of entries) {
      expect(entry.types).toBe(entry.default.replace(/\.js$/, ".d.ts"));
      const source = entry.default.replace("./dist/", "src/").replace(/\.js$/, ".ts");
      for (const path of [entry.types, entry.default, source]) {
        await access(join(folderOf(name), path));
      }
      // Tools take the first condition that they know.
      expect(["types,default", "types,browser,default", "types,node,default"]).toContain(
        Object.keys(entry).join(),
      );
    }
  });

  it("has the same face in browsers and in Node", async () => {
    const own = entries.flatMap(({ name, entry }) => {
      const other = entry.browser ?? entry.node;
      return other === undefined ? [] : [{ name, other, entry }];
    });
    expect(own).toHaveLength(2);
    for (const { name, other, entry } of own) {
      const names = async (path: string) =>
        Object.keys((await import(join(folderOf(name), path))) as object).sort();
      expect(await names(other)).toEqual(await names(entry.default));
    }
  });

  it("lists every engine", async () => {
    const folders = await readdir(join(folderOf("leasehold"), "src/stores"), {
      withFileTypes: true,
    });
    const engines = folders.filter((entry) => entry.isDirectory());
    expect(specifiers.filter((path) => path.includes("/stores/")).sort()).toEqual(
      engines.map(({ name }) => `leasehold/stores/${name}`).sort(),
    );
  });

  it.each(PACKAGES)("%s has programs that can be run", async (name) => {
    for (const path of Object.values(manifests[name].bin)) {
      await access(join(folderOf(name), path), constants.X_OK);
      expect(await readFile(join(folderOf(name), path), "utf8")).toMatch(
        /^#!\/usr\/bin\/env node\n/,
      );
    }
  });
});

describe("the tarballs", () => {
  it.each(PACKAGES)("%s holds what its package.json names", (name) => {
    const files = packed.get(name) ?? [];
    for (const path of [...manifests[name].files, "LICENSE", "README.md"]) {
      expect(
        files.some((file) => file === path || file.startsWith(`${path}/`)),
        path,
      ).toBe(true);
    }
  });

  it("hold the manual of the errors, the console and the demo", () => {
    expect(packed.get("leasehold")).toContain("docs/errors.md");
    expect(packed.get("leasehold-server")).toEqual(
      expect.arrayContaining([
        "dist/web/index.html",
        "dist/web/simulator.html",
        "dist/demo/sleep.js",
      ]),
    );
  });

  it.each(PACKAGES)("%s points to no source map that is not in it", async (name) => {
    const files = packed.get(name) ?? [];
    for (const path of files.filter((path) => /\.(js|ts)$/.test(path))) {
      const text = await readFile(join(folderOf(name), path), "utf8");
      const [, map] = /^\/\/# sourceMappingURL=(.+)$/m.exec(text) ?? [];
      if (map !== undefined) expect(files).toContain(join(dirname(path), map));
    }
  });
});

describe("in a project without optional peers", () => {
  const inProject = (...args: string[]) => run(process.execPath, args, { cwd: folder });

  // Telemetry is for those who have OpenTelemetry, which the server brings.
  it.each(specifiers)("imports and requires %s", async (specifier) => {
    const name = JSON.stringify(specifier);
    // require() adds a mark where there is a default export.
    const count = `Object.keys(m).filter((key) => key !== "__esModule").length`;
    const imported = await inProject(
      "--input-type=module",
      "-e",
      `const m = await import(${name}); console.log(${count})`,
    );
    expect(Number(imported.stdout)).toBeGreaterThan(0);
    // Works as long as no module awaits at its top level.
    const require = `const m = require(${name}); console.log(${count})`;
    const required = await inProject("--no-warnings", "-e", require);
    expect(required.stdout).toBe(imported.stdout);
  });

  it("has types that need nothing else", async () => {
    const uses = specifiers.map((path, i) => `export * as m${i} from "${path}";`);
    await writeFile(join(folder, "use.mts"), uses.join("\n"));
    const options =
      "--strict --noEmit --module nodenext --target es2022 --lib es2024,esnext.disposable,dom";
    const check = run(join(root, "node_modules/.bin/tsc"), [...options.split(" "), "use.mts"], {
      cwd: folder,
    });
    // Libraries are checked too, and those of others may have faults of their own.
    const output = await check.then(
      () => "",
      ({ stdout }: { stdout: string }) => stdout,
    );
    const faults = output
      .split("\n")
      .filter((line) => /^(node_modules\/leasehold(-server)?\/|use)/.test(line));
    expect(faults.join("\n")).toBe("");
  });

  it.each([
    ["mysql://localhost", "INVALID_OPTION", /^source must begin/],
    ["postgres://localhost/app", "STORE_MISCONFIGURED", /pg is missing: npm install pg$/],
    ["redis://localhost", "STORE_MISCONFIGURED", /ioredis is missing: npm install ioredis$/],
    ["pglite:", "STORE_MISCONFIGURED", /pglite is missing: npm install @electric-sql\/pglite$/],
  ])(
    "refuses %s, with a link that can be followed from the project",
    async (source, code, message) => {
      const program = `
      const { connect } = await import("leasehold");
      const error = await connect(${JSON.stringify(source)}).catch((error) => error);
      console.log(JSON.stringify(error));`;
      const { stdout } = await inProject("--input-type=module", "-e", program);
      const error = JSON.parse(stdout) as { code: string; message: string; docs: string };
      expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
      const [file = "", anchor = ""] = error.docs.split("#");
      const headings = (await readFile(join(folder, file), "utf8")).match(/^## .+$/gm) ?? [];
      expect(headings.map((heading) => heading.slice(3).toLowerCase())).toContain(anchor);
    },
  );

  it.each(["leasehold", "leasehold-server"])("%s prints its version", async (command) => {
    const path = manifests["leasehold-server"].bin[command] ?? "";
    const { stdout } = await inProject(join("node_modules/leasehold-server", path), "--version");
    expect(stdout.trim()).toBe(manifests["leasehold-server"].version);
  });
});

describe("the library's own command", () => {
  const command = ["node_modules/leasehold/bin/leasehold.js", "--version"];

  it("runs that of the server where both are installed", async () => {
    const { stdout } = await run(process.execPath, command, { cwd: folder });
    expect(stdout.trim()).toBe(manifests["leasehold-server"].version);
  });

  it("says how to get it where there is the library alone", async () => {
    const server = join(folder, "node_modules/leasehold-server");
    await rename(server, `${server}-away`);
    const ended = await run(process.execPath, command, { cwd: folder }).then(
      () => null,
      (error: { code: number; stderr: string }) => error,
    );
    await rename(`${server}-away`, server);
    expect(ended).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("npm install leasehold-server"),
    });
  });
});

it("have one version, and the server takes exactly that of the library", () => {
  const { version } = manifests.leasehold;
  expect(manifests["leasehold-server"].version).toBe(version);
  expect(manifests["leasehold-server"].dependencies["leasehold"]).toBe(version);
});

it("keeps the library small: at most six dependencies, and nothing of a server's", () => {
  const names = Object.keys(manifests.leasehold.dependencies);
  expect(names.length).toBeLessThanOrEqual(6);
  const heavy = ["hono", "zod", "commander", "pino", "@opentelemetry/api"];
  expect(names.filter((name) => heavy.includes(name))).toEqual([]);
});

it.each(PACKAGES)("%s declares drivers as optional peers that the tests have", async (name) => {
  const workspace = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as Manifest;
  const { peerDependencies, peerDependenciesMeta, dependencies } = manifests[name];
  for (const peer of Object.keys(peerDependencies)) {
    expect(peerDependenciesMeta[peer]?.optional, peer).toBe(true);
    expect(workspace.devDependencies, peer).toHaveProperty([peer]);
    expect(dependencies, peer).not.toHaveProperty([peer]);
  }
});

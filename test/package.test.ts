/** The package as its users get it: its export map, its contents, and each entry in an empty project. */
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import {
  access,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));

interface Entry {
  readonly types: string;
  readonly browser?: string;
  readonly default: string;
}
interface Manifest {
  readonly files: readonly string[];
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string | Entry>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { optional?: boolean }>>;
}
const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as Manifest;
const subpaths = Object.keys(manifest.exports).filter((path) => !path.endsWith(".json"));

let folder: string;
let packed: string[];
beforeAll(async () => {
  await access(join(root, "dist/index.js")).catch(() => {
    throw new Error("there is no dist: npm run build");
  });
  folder = await mkdtemp(join(tmpdir(), "leasehold-package-"));
  const pack = ["pack", "--ignore-scripts", "--json", "--pack-destination", folder];
  const { stdout } = await run("npm", pack, { cwd: root });
  const [{ filename, files }] = JSON.parse(stdout) as [
    { filename: string; files: { path: string }[] },
  ];
  packed = files.map(({ path }) => path);
  const home = join(folder, "node_modules", "leasehold");
  await mkdir(home, { recursive: true });
  await run("tar", ["-xzf", join(folder, filename), "--strip-components=1", "-C", home]);
  // Its dependencies, and none of its optional peers.
  for (const name of Object.keys(manifest.dependencies)) {
    await mkdir(dirname(join(folder, "node_modules", name)), { recursive: true });
    await symlink(join(root, "node_modules", name), join(folder, "node_modules", name));
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the export map", () => {
  it("names built files that come from sources, as types and as code", async () => {
    for (const subpath of subpaths) {
      const entry = manifest.exports[subpath];
      if (typeof entry !== "object") throw new Error(`${subpath} has no conditions`);
      expect(entry.types).toBe(entry.default.replace(/\.js$/, ".d.ts"));
      const source = entry.default.replace("./dist/", "src/").replace(/\.js$/, ".ts");
      for (const path of [entry.types, entry.default, source]) await access(join(root, path));
      // Tools take the first condition that they know.
      expect(["types,default", "types,browser,default"]).toContain(Object.keys(entry).join());
    }
  });

  it("has the same face for browsers", async () => {
    const entries = Object.values(manifest.exports).filter((entry) => typeof entry === "object");
    const [entry, ...more] = entries.filter(({ browser }) => browser !== undefined);
    expect(more).toEqual([]);
    if (!entry?.browser) throw new Error("there is no entry for browsers");
    const names = async (path: string) =>
      Object.keys((await import(join(root, path))) as object).sort();
    expect(await names(entry.browser)).toEqual(await names(entry.default));
  });

  it("lists every engine", async () => {
    const entries = await readdir(join(root, "src/stores"), { withFileTypes: true });
    const engines = entries.filter((entry) => entry.isDirectory());
    expect(subpaths.filter((path) => path.startsWith("./stores/")).sort()).toEqual(
      engines.map(({ name }) => `./stores/${name}`).sort(),
    );
  });

  it("has a program that can be run", async () => {
    for (const path of Object.values(manifest.bin)) {
      await access(join(root, path), constants.X_OK);
      expect(await readFile(join(root, path), "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
    }
  });
});

describe("the tarball", () => {
  it("holds what package.json names, and the manual of the errors", () => {
    for (const path of manifest.files.filter((path) => path !== "dist")) {
      expect(packed.some((file) => file === path || file.startsWith(`${path}/`))).toBe(true);
    }
    expect(packed).toContain("docs/errors.md");
  });

  it("holds nothing but built modules and the console besides", async () => {
    const named = manifest.files.filter((path) => path !== "dist");
    // The console's files, which go by what is in them.
    const web = /^dist\/web\/(\w+\.html|favicon\.svg|assets\/[\w-]+\.(js|css|woff2))$/;
    expect(packed).toEqual(
      expect.arrayContaining(["dist/web/index.html", "dist/web/simulator.html"]),
    );
    const rest = packed.filter(
      (path) =>
        path !== "package.json" &&
        !web.test(path) &&
        !named.some((name) => path === name || path.startsWith(`${name}/`)),
    );
    const sources = await readdir(join(root, "src"), { recursive: true });
    const modules = sources
      .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
      .map((path) => path.replace(/\.ts$/, ""));
    expect(rest.sort()).toEqual(
      modules.flatMap((path) => [`dist/${path}.d.ts`, `dist/${path}.js`]).sort(),
    );
  });

  it("points to no source map that is not in it", async () => {
    for (const path of packed.filter((path) => /\.(js|ts)$/.test(path))) {
      const text = await readFile(join(root, path), "utf8");
      const [, map] = /^\/\/# sourceMappingURL=(.+)$/m.exec(text) ?? [];
      if (map !== undefined) expect(packed).toContain(join(dirname(path), map));
    }
  });
});

describe("in a project without optional peers", () => {
  const inProject = (...args: string[]) => run(process.execPath, args, { cwd: folder });

  it.each(subpaths)("imports and requires %s", async (subpath) => {
    const name = JSON.stringify(`leasehold${subpath.slice(1)}`);
    const count = `Object.keys(m).length`;
    const imported = await inProject(
      ...["--input-type=module", "-e", `const m = await import(${name}); console.log(${count})`],
    );
    expect(Number(imported.stdout)).toBeGreaterThan(0);
    // Works as long as no module awaits at its top level.
    const require = `const m = require(${name}); console.log(${count})`;
    const required = await inProject("--no-warnings", "-e", require);
    expect(required.stdout).toBe(imported.stdout);
  });

  it("has types that need nothing else", async () => {
    const uses = subpaths.map((path, i) => `export * as m${i} from "leasehold${path.slice(1)}";`);
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
    const faults = output.split("\n").filter((line) => /^(node_modules\/leasehold|use)/.test(line));
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

  it("prints its version", async () => {
    const program = join("node_modules", "leasehold", manifest.bin.leasehold ?? "");
    const { stdout } = await inProject(program, "--version");
    const { version } = JSON.parse(
      await readFile(join(folder, "node_modules/leasehold/package.json"), "utf8"),
    ) as { version: string };
    expect(stdout.trim()).toBe(version);
  });
});

it("declares drivers as optional peers that its own tests have", () => {
  for (const name of Object.keys(manifest.peerDependencies)) {
    expect(manifest.peerDependenciesMeta[name]?.optional, name).toBe(true);
    expect(manifest.devDependencies, name).toHaveProperty([name]);
    expect(manifest.dependencies, name).not.toHaveProperty([name]);
  }
});

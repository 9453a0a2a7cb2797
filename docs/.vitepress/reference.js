// Writes the pages of the API from the docstrings, one folder for each public entry of the packages.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { manifestOf, PROJECT } from "./manifest.js";

const at = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));
const entries = at("cache/entries");
rmSync(entries, { recursive: true, force: true });
const files = ["leasehold", "leasehold-server"].flatMap((name) =>
  Object.entries(manifestOf(name).exports).flatMap(([entry, { types }]) =>
    types && !entry.startsWith("./internal") ? [entryFile(name, entry, types)] : [],
  ),
);

const options = {
  plugin: ["typedoc-plugin-markdown"],
  entryPoints: files,
  tsconfig: `${entries}/tsconfig.json`,
  basePath: entries,
  sourceLinkTemplate: `${PROJECT}/blob/main/{path}#L{line}`,
  out: at("../reference/api"),
  name: "API",
  entryFileName: "index",
  hidePageHeader: true,
  readme: "none",
  skipErrorChecking: true,
  logLevel: "Error",
  excludePrivate: true,
  excludeInternal: true,
};
const compiled = { extends: at("../../tsconfig.json"), include: ["**/*.ts"], exclude: [] };
writeFileSync(`${entries}/tsconfig.json`, JSON.stringify(compiled));
writeFileSync(`${entries}/typedoc.json`, JSON.stringify(options));
const typedoc = at("../node_modules/.bin/typedoc");
const { status } = spawnSync(typedoc, ["--options", `${entries}/typedoc.json`], {
  stdio: "inherit",
});
process.exitCode = status ?? 1;
// The paths of sources as the repository has them, not as the entries see them.
for (const name of readdirSync(options.out, { recursive: true, encoding: "utf8" })) {
  if (!name.endsWith(".md")) continue;
  const file = join(options.out, name);
  const page = readFileSync(file, "utf8");
  writeFileSync(file, page.replace(/^(Defined in: \[)(?:\.\.\/)+/gm, "$1"));
}

/** A file whose path is the name by which users import the entry. */
function entryFile(
  /** @type {string} */ name,
  /** @type {string} */ entry,
  /** @type {string} */ types,
) {
  const file = `${entries}/${entry.replace(/^\./, name)}.ts`;
  const source = at(
    `../../packages/${name}/${types.replace("dist", "src").replace(".d.ts", ".js")}`,
  );
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `export * from "${relative(dirname(file), source)}";\n`);
  return file;
}

/** Projects of users: npm installs the packed packages in an empty folder. */
import { readFileSync } from "node:fs";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { PACKAGES, type PackageName, pack } from "../support/documents/packages.js";
import { run } from "./program.js";

const PROGRAMS = fileURLToPath(new URL("./programs", import.meta.url));
const LOCKFILE = fileURLToPath(new URL("../../package-lock.json", import.meta.url));

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
  readonly version?: string;
}

/**
 * @param folder is created
 * @param names of our packages
 * @param others that the user installs beside them
 */
export async function createProject(
  folder: string,
  names: readonly PackageName[],
  others: readonly string[] = [],
): Promise<string> {
  await mkdir(folder, { recursive: true });
  const tarballs: Record<string, string> = {};
  for (const name of names) {
    const { tarball } = await pack(name, folder);
    tarballs[name] = `file:${basename(tarball)}`;
  }
  const { packages: known } = JSON.parse(readFileSync(LOCKFILE, "utf8")) as {
    packages: Readonly<Record<string, Locked>>;
  };
  const versions = others.map((name) => [name, known[`node_modules/${name}`]?.version] as const);
  const dependencies = { ...tarballs, ...Object.fromEntries(versions) };
  const manifest = { name: "project", version: "1.0.0", private: true, dependencies };
  const packages = { "": manifest, ...closureOf(known, tarballs, others) };
  const lockfile = { ...manifest, lockfileVersion: 3, requires: true, packages };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  await writeFile(join(folder, "package-lock.json"), JSON.stringify(lockfile));
  const quietly = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
  await run("npm", ["ci", ...quietly], { cwd: folder });
  await cp(PROGRAMS, join(folder, "programs"), { recursive: true });
  return folder;
}

/**
 * What a project's lockfile says of its packages: the versions of this repository's lockfile, so that a release of
 * another package changes no result.
 */
function closureOf(
  known: Readonly<Record<string, Locked>>,
  tarballs: Readonly<Record<string, string>>,
  others: readonly string[],
): Record<string, Locked> {
  const found: Record<string, Locked> = {};
  const add = (from: string, name: string, isOptional = false) => {
    const tarball = tarballs[name];
    const path = tarball === undefined ? find(known, from, name) : `packages/${name}`;
    const locked = path === undefined ? undefined : known[path];
    if (path === undefined || locked === undefined) {
      if (isOptional) return;
      throw new Error(`package-lock.json has no ${name}, which ${from} needs`);
    }
    const place = path.replace(/^packages\//, "node_modules/");
    if (place in found) return;
    found[place] = { ...locked, ...(tarball !== undefined && { resolved: tarball }) };
    for (const each of Object.keys(locked.dependencies ?? {})) add(path, each);
    for (const each of Object.keys(locked.optionalDependencies ?? {})) add(path, each, true);
    for (const each of Object.keys(locked.peerDependencies ?? {})) {
      if (locked.peerDependenciesMeta?.[each]?.optional !== true) add(path, each);
    }
  };
  for (const name of PACKAGES) if (name in tarballs) add("", name);
  for (const name of others) add("", name);
  return found;
}

/** Where Node would find a package of that name, by the paths of the lockfile. */
function find(known: Readonly<Record<string, Locked>>, from: string, name: string) {
  const parts = from.split("/node_modules/");
  for (let length = parts.length; length > 0; length -= 1) {
    const path = `${parts.slice(0, length).join("/node_modules/")}/node_modules/${name}`;
    if (path in known) return path;
  }
  return `node_modules/${name}` in known ? `node_modules/${name}` : undefined;
}

/** Writes a project from the templates, which are a project of their own that the tests run. */
import { cpSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const STORES = ["pglite", "postgres"] as const;

export interface ProjectOptions {
  readonly directory: string;
  readonly store: (typeof STORES)[number];
  /** Of Leasehold: this package and the library are released together. */
  readonly version: string;
}

interface Manifest {
  name: string;
  dependencies: Record<string, string>;
}

/** The caller gave a wrong argument. Nothing was written. */
export class UsageError extends Error {}

const TEMPLATES = fileURLToPath(new URL("../templates/", import.meta.url));

/**
 * @returns the name of the project
 * @throws UsageError if the directory is not empty
 */
export function createProject({ directory, store, version }: ProjectOptions): string {
  const path = resolve(directory);
  checkEmpty(path);
  cpSync(join(TEMPLATES, "base"), path, { recursive: true });
  if (store === "postgres") cpSync(join(TEMPLATES, "postgres"), path, { recursive: true });
  // npm packs no file of the name `.gitignore`.
  renameSync(join(path, "gitignore"), join(path, ".gitignore"));
  const file = join(path, "package.json");
  const manifest = JSON.parse(readFileSync(file, "utf8")) as Manifest;
  manifest.name = packageName(path);
  manifest.dependencies["leasehold"] = `^${version}`;
  if (store === "postgres") delete manifest.dependencies["@electric-sql/pglite"];
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
  return manifest.name;
}

function checkEmpty(path: string): void {
  try {
    const [first] = readdirSync(path).filter((name) => name !== ".git");
    if (first === undefined) return;
    throw new UsageError(`${path} is not empty: it has ${first}`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return;
    if (code === "ENOTDIR") throw new UsageError(`${path} is a file`);
    throw error;
  }
}

/** A name that npm accepts. */
function packageName(path: string): string {
  const name = basename(path)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replaceAll(/^[._-]+|[._-]+$/g, "");
  return name === "" ? "leasehold-app" : name;
}

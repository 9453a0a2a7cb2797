/**
 * Two versions of the packages, compiled side by side:
 *
 *   old    the last release in the history of the repository; while there is none, the sources as they are
 *   next   the sources as they are, and what a later release may add: `ADDITIONS`
 */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { compilePrograms } from "../../scripts/support/sources.js";
import { ADDITIONS, type Change } from "./additions.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const PROGRAM = fileURLToPath(new URL("./program.ts", import.meta.url));
const FIRST_RELEASE = "0.2.0";

export interface Version {
  readonly name: "old" | "next";
  /** For people: the release, or what stands in for it. */
  readonly of: string;
  /** Of program.ts, compiled with the packages of this version. */
  readonly program: string;
}

export interface Versions {
  readonly old: Version;
  readonly next: Version;
  remove(): Promise<void>;
}

export async function buildVersions(): Promise<Versions> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-upgrade-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const release = await lastRelease();
    const [oldFolder, nextFolder] = [join(folder, "old"), join(folder, "next")];
    if (release === null) await copySources(oldFolder);
    else await copyRelease(release, oldFolder);
    await copySources(nextFolder);
    for (const change of ADDITIONS) await apply(change, nextFolder);
    const of = release ?? "the sources as they are";
    return {
      old: { name: "old", of, program: await build(oldFolder) },
      next: { name: "next", of: "the sources with additions", program: await build(nextFolder) },
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The tag of the newest release before these sources; null if there is none, or no repository. */
async function lastRelease(): Promise<string | null> {
  const git = async (...args: string[]) => (await run("git", args, { cwd: root })).stdout.trim();
  try {
    const tags = await git("tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname");
    const head = await git("rev-parse", "HEAD");
    for (const tag of tags.split("\n")) {
      if (!/^v\d+\.\d+\.\d+$/.test(tag) || isBefore(tag.slice(1), FIRST_RELEASE)) continue;
      if ((await git("rev-parse", `${tag}^{commit}`)) !== head) return tag;
    }
  } catch {
    // A copy without its history.
  }
  return null;
}

function isBefore(version: string, other: string): boolean {
  return version.localeCompare(other, "en", { numeric: true }) < 0;
}

async function copySources(folder: string): Promise<void> {
  const wanted = (path: string) => !["node_modules", "dist"].includes(basename(path));
  await cp(join(root, "packages"), join(folder, "packages"), { recursive: true, filter: wanted });
}

async function copyRelease(tag: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const archive = join(folder, "packages.tar");
  await run("git", ["archive", "--output", archive, tag, "packages"], { cwd: root });
  await run("tar", ["-xf", archive, "-C", folder]);
}

/** @throws Error unless what it replaces is there once */
async function apply({ file, find, by, append = "" }: Change, folder: string): Promise<void> {
  const path = join(folder, file);
  const parts = (await readFile(path, "utf8")).split(find);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times: ${find}`);
  await writeFile(path, parts.join(by) + append);
}

/** @returns the path of the program */
async function build(folder: string): Promise<string> {
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  await compilePrograms({ program: PROGRAM }, join(folder, "out"), `${folder}/`);
  return join(folder, "out", "program.js");
}

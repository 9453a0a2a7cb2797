/** The published packages, as npm packs them. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../..", import.meta.url));

export const PACKAGES = ["leasehold", "leasehold-server"] as const;
export type PackageName = (typeof PACKAGES)[number];

export const folderOf = (name: PackageName) => join(root, "packages", name);

export interface Packed {
  readonly tarball: string;
  /** The paths in the tarball. */
  readonly files: readonly string[];
}

/** Packs what was built into a tarball in the folder. */
export async function pack(name: PackageName, folder: string): Promise<Packed> {
  const args = ["pack", "--ignore-scripts", "--json", "--pack-destination", folder];
  const { stdout } = await run("npm", args, { cwd: folderOf(name) });
  const [{ filename, files }] = JSON.parse(stdout) as [
    { filename: string; files: { path: string }[] },
  ];
  return { tarball: join(folder, filename), files: files.map(({ path }) => path) };
}

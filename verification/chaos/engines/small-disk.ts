/** A disk that is soon full: in memory, mounted for one run. */
import { execFile, spawnSync } from "node:child_process";
import { chmod, mkdtemp, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const FILL_TRIES = 20;

export interface SmallDisk {
  readonly folder: string;
  /** Leaves no byte of it. */
  fill(): Promise<void>;
  /** After fill(). */
  free(): Promise<void>;
  unmount(): Promise<void>;
}

let missing: string | null | undefined;

/** Why there can be none, or null. */
export function missingTmpfs(): string | null {
  missing ??= (() => {
    const tried =
      'd=$(mktemp -d); mount -t tmpfs tmpfs "$d" && umount "$d"; s=$?; rmdir "$d"; exit $s';
    if (spawnSync("sh", ["-c", tried]).status === 0) return null;
    return "no tmpfs can be mounted here (that takes root)";
  })();
  return missing;
}

/** Creates a folder that servers running as another user can read. */
export async function openFolder(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `leasehold-${name}-`));
  await chmod(folder, 0o755);
  return folder;
}

export async function mountTmpfs(megabytes: number): Promise<SmallDisk> {
  const folder = await openFolder("disk");
  await run("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder]);
  const filler = join(folder, "filler");
  // Of a process that ends otherwise too.
  const detach = () => void spawnSync("umount", ["--lazy", folder]);
  process.once("exit", detach);
  return {
    folder,
    async fill() {
      for (let tries = 1; ; tries += 1) {
        const { bavail, bsize } = await statfs(folder);
        try {
          await run("fallocate", ["--length", `${bavail * bsize}`, filler]);
          return;
        } catch (error) {
          // The server has written in between, and there is less than was seen.
          if (tries === FILL_TRIES || !`${error}`.includes("No space left")) throw error;
        }
      }
    },
    free: () => rm(filler, { force: true }),
    async unmount() {
      process.removeListener("exit", detach);
      await run("umount", ["--lazy", folder]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Only the user of this process may read or write a PGlite directory, because its files have lease ids in them.
 * PGlite writes its files with the modes of its archive, so the directory protects them from the start, and
 * their own modes are changed afterwards. Windows has no such modes, and its directories are not checked.
 */
import { chmodSync, constants, readdirSync, statSync } from "node:fs";
import { access, chmod, mkdir, readdir, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { StoreMisconfiguredError } from "../../lease/index.js";

const DIRECTORY_MODE = 0o700;
export const FILE_MODE = 0o600;
const GROUP_AND_OTHERS = 0o077;

/**
 * Creates the directory if it is missing, for this user alone. An empty one is taken over.
 * @returns its path without links
 * @throws StoreMisconfiguredError if it is a file, may not be created, or is open to other users
 */
export async function ownDirectory(directory: string): Promise<string> {
  try {
    await mkdir(dirname(directory), { recursive: true });
    await mkdir(directory, { mode: DIRECTORY_MODE }).catch(ifExists);
    const real = await realpath(directory);
    const isEmpty = (await readdir(real)).length === 0;
    await checkOwner(real);
    if (isEmpty && hasModes()) await chmod(real, DIRECTORY_MODE);
    await checkMode(real);
    await access(real, constants.W_OK);
    return real;
  } catch (error) {
    if (error instanceof StoreMisconfiguredError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    const isFile = code === "EEXIST" || code === "ENOTDIR";
    const problem = isFile
      ? "is a file, or below one: name a directory"
      : `cannot be used: ${message}`;
    throw new StoreMisconfiguredError(`the PGlite directory ${directory} ${problem}`, error);
  }
}

/**
 * Takes the rights of other users from the files of a database that is open. Once done, it is not repeated: files that
 * PostgreSQL adds are its own.
 */
export function restrictFiles(directory: string): void {
  const last = join(directory, "PG_VERSION");
  if (!hasModes() || (statSync(last).mode & GROUP_AND_OTHERS) === 0) return;
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) restrict(path, DIRECTORY_MODE);
    else if (entry.isFile() && path !== last) restrict(path, FILE_MODE);
  }
  restrict(last, FILE_MODE);
}

/** Other openers add and delete their lock files meanwhile. */
function restrict(path: string, mode: number): void {
  try {
    chmodSync(path, mode);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

function ifExists(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}

/** @throws StoreMisconfiguredError */
async function checkOwner(directory: string): Promise<void> {
  const { uid } = await stat(directory);
  const own = process.geteuid?.();
  if (own === undefined || !hasModes() || uid === own) return;
  throw new StoreMisconfiguredError(
    `the PGlite directory ${directory} belongs to another user (${uid}), who can change everything in it: run this as that user, or name another directory; if you trust its contents: chown -R ${own} ${quoted(directory)}`,
  );
}

/** @throws StoreMisconfiguredError */
async function checkMode(directory: string): Promise<void> {
  const { mode } = await stat(directory);
  if (!hasModes() || (mode & GROUP_AND_OTHERS) === 0) return;
  const shown = (mode & 0o777).toString(8);
  throw new StoreMisconfiguredError(
    `the PGlite directory ${directory} is open to other users (mode ${shown}), and has lease ids in it: chmod -R go-rwx ${quoted(directory)}`,
  );
}

function hasModes(): boolean {
  return process.platform !== "win32";
}

/** For a shell. */
function quoted(path: string): string {
  return /^[\w./@:+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}

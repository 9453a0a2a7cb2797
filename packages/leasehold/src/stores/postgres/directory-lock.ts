/**
 * PGlite does not detect a second opener of its directory, and two openers would corrupt the data. So
 * each opener first announces itself by its own file in the directory, and then checks for others:
 *
 *   A   announce A ── check: alone ──────────── open
 *   B        announce B ── check: A is alive ── withdraw, fail
 *
 * In every interleaving, the opener that checks last sees the other, so they cannot both open. (Both
 * may withdraw; then each retries after a random delay.) Any opener deletes the file of a dead process.
 * File names are never reused, so it cannot delete another opener's file. No opener takes over a file,
 * so there is no takeover race.
 *
 * A process is identified by its pid *and* start time, because pids are reused. Pids of another
 * container mean nothing here, but containers share the kernel. So each owner listens on a socket
 * beside its file: it accepts connections while the process lives, even if it is stopped, and refuses
 * them once it is dead. A process on another machine is known only by its file: the operator who kills
 * it must delete that file.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { chmod, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { type Clock, type Random, sleep } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import { FILE_MODE, ownDirectory } from "./directory-access.js";

const FILE = /^leasehold-(\d+)-[0-9a-f]{16}\.lock$/;
/** Some systems truncate or reject longer socket paths. */
const LONGEST_SOCKET_PATH_BYTES = 100;
/** Attempts of two openers that announce themselves at the same moment. */
const ATTEMPTS = 10;

interface Owner {
  readonly pid: number;
  /** In the system's format; null if unknown. */
  readonly startedAt: string | null;
  readonly host: string;
  /** In the system's format; null if it has no PID namespaces. */
  readonly pidNamespace: string | null;
  /** Identifies the boot of the kernel; null if unknown. */
  readonly boot: string | null;
  /** Whether the owner listens on the socket beside its file. */
  readonly listens: boolean;
}

export interface DirectoryLock {
  release(): Promise<void>;
}

/**
 * Creates the directory if it is missing, and locks it for this process.
 * @throws StoreMisconfiguredError naming the process that has it open, or why other users can read it
 */
export async function lockDirectory(
  directory: string,
  env: { clock: Clock; random: Random },
): Promise<DirectoryLock> {
  const real = await ownDirectory(directory);
  for (let attempt = 1; ; attempt++) {
    const name = `leasehold-${process.pid}-${Buffer.from(env.random.bytes(8)).toString("hex")}.lock`;
    const path = join(real, name);
    const socket = await listenAt(socketOf(path));
    const own: Owner = {
      pid: process.pid,
      startedAt: startOf(process.pid),
      host: hostname(),
      pidNamespace: pidNamespace(),
      boot: bootId(),
      listens: socket !== null,
    };
    // The rename is atomic: no reader sees a partial file, which could lack the socket flag.
    await writeFile(`${path}.new`, JSON.stringify(own), { flag: "wx", mode: FILE_MODE });
    await rename(`${path}.new`, path);
    const release = async () => {
      await rm(path, { force: true });
      // Closing the server deletes its socket file.
      await new Promise<void>((resolve) => (socket ? socket.close(() => resolve()) : resolve()));
    };
    const other = await findOther(real, name);
    if (!other) return { release };
    await release();
    if (attempt === ATTEMPTS) throw new StoreMisconfiguredError(inUse(directory, other));
    await sleep(env.clock, 5 + 20 * env.random.float());
  }
}

interface Other {
  readonly file: string;
  readonly pid: number;
  /** Set for a process on another machine, which cannot be checked. */
  readonly host: string | null;
}

async function findOther(directory: string, own: string): Promise<Other | null> {
  for (const name of await readdir(directory)) {
    const pid = Number(FILE.exec(name)?.[1]);
    if (Number.isNaN(pid) || name === own) continue;
    const file = join(directory, name);
    const owner = await readOwner(file, pid);
    if (!owner) continue;
    const near = owner.host === hostname() && owner.pidNamespace === pidNamespace();
    const sameKernel = owner.listens && owner.boot !== null && owner.boot === bootId();
    if (!near && !sameKernel) return { file, pid, host: owner.host };
    if (near ? isAlive(owner) : await answers(socketOf(file))) return { file, pid, host: null };
    await rm(file, { force: true });
    await rm(socketOf(file), { force: true });
  }
  return null;
}

/** Returns null if the file is gone. A file damaged by a power failure still names a pid. */
async function readOwner(file: string, pid: number): Promise<Owner | null> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (text === null) return null;
  try {
    return JSON.parse(text) as Owner;
  } catch {
    const here = { host: hostname(), pidNamespace: pidNamespace(), boot: bootId() };
    return { ...here, pid, startedAt: null, listens: false };
  }
}

function isAlive(owner: Owner): boolean {
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    // A process of another user (EPERM) is alive too.
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
  }
  const startedAt = startOf(owner.pid);
  // If the start time is unknown, any process with the pid may be the owner.
  return owner.startedAt === null || startedAt === null || owner.startedAt === startedAt;
}

function socketOf(file: string): string {
  return file.replace(/\.lock$/, ".sock");
}

/** Returns null if the file system has no sockets, or does not allow a path of this length. */
function listenAt(path: string): Promise<Server | null> {
  if (process.platform !== "linux" || Buffer.byteLength(path) > LONGEST_SOCKET_PATH_BYTES) {
    return Promise.resolve(null);
  }
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy());
    server.unref();
    server.once("error", () => resolve(null));
    server.listen(path, () => {
      // The directory protects it too, where a file system refuses this.
      void chmod(path, FILE_MODE)
        .catch(() => {})
        .then(() => resolve(server));
    });
  });
}

/** Reports whether the owner may still listen: false only if the connection is refused for certain. */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code !== "ECONNREFUSED"));
  });
}

function bootId(): string | null {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return null;
  }
}

function pidNamespace(): string | null {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return null;
  }
}

/** Distinguishes processes that reused a pid; null if the system does not say. */
function startOf(pid: number): string | null {
  try {
    if (process.platform === "linux") return linuxStartOf(pid);
    if (process.platform === "win32") return null;
    return execFileSync("ps", ["-o", "lstart=", "-p", `${pid}`], { encoding: "utf8" }).trim();
  } catch {
    return null;
  }
}

/** Start time in ticks since the boot, and the boot id. A zombie process counts as ended. */
function linuxStartOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The second field is the name in parentheses, and may contain any character.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const state = fields[0];
  return state === "Z" || state === "X" ? "ended" : `${fields[19]} ${bootId()}`;
}

function inUse(directory: string, { pid, host, file }: Other): string {
  const owner = host === null ? `process ${pid}` : `process ${pid} of another machine, "${host}"`;
  const create = `PGlite.create(${JSON.stringify(directory)})`;
  if (host === null && pid === process.pid) {
    return `the PGlite directory ${directory} is open in ${owner}, which is this one: open it once, const db = await ${create}, and share it, connect(pglite({ db })) for each client`;
  }
  const remedy =
    host === null
      ? `if that process is "leasehold serve" or "leasehold demo", connect to the http:// address that it prints; else stop it, and share the directory by a server of its own: leasehold serve --store pglite:${directory}`
      : `if that machine is gone, delete ${file}`;
  return `the PGlite directory ${directory} is open in ${owner}; only one process can open it: ${remedy}`;
}

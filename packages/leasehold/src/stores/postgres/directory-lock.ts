/**
 * PGlite does not notice a second opener of its directory, and two would ruin the data. So each
 * opener first announces itself by a file of its own in the directory, then looks for others:
 *
 *   A   announce A ── look: nobody ─────────── open
 *   B        announce B ── look: A is alive ── withdraw, fail
 *
 * Whatever the interleaving, of two openers the one who looks last sees the other: they cannot
 * both open. (Both may withdraw; then each tries again after a random pause.) A file of a process
 * that is gone is no obstacle and is deleted by whoever sees it; as no name is ever used twice, that
 * cannot hit the file of somebody else. Nothing is taken over, so there is no take-over to race for.
 *
 * A process is known by its pid *and* start time, because pids are used again. Pids of another
 * container mean nothing here, but it has the same kernel: each owner listens on a socket beside its
 * file, which answers for as long as the process lives, also while it is stopped, and refuses when it
 * has died. Of a process of another machine nothing can be known but its file: who has killed it must
 * delete that.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { StoreMisconfiguredError } from "../../core/index.js";
import { type Clock, type Random, sleep } from "../../env/index.js";

const FILE = /^leasehold-(\d+)-[0-9a-f]{16}\.lock$/;
/** Longer paths of sockets are cut off or refused, depending on the system. */
const LONGEST_SOCKET_PATH_BYTES = 100;
/** How often two who announce themselves at the same moment try again. */
const ATTEMPTS = 10;

interface Owner {
  readonly pid: number;
  /** As the system words it; null where it does not say. */
  readonly startedAt: string | null;
  readonly host: string;
  /** As the system names it; null where there are none. */
  readonly pidNamespace: string | null;
  /** Which run of which kernel; null where the system does not say. */
  readonly boot: string | null;
  /** Whether it listens on the socket beside its file. */
  readonly listens: boolean;
}

export interface DirectoryLock {
  release(): Promise<void>;
}

/**
 * Creates the directory where it is missing, and locks it for this process.
 * @throws StoreMisconfiguredError naming the process that has it open
 */
export async function lockDirectory(
  directory: string,
  env: { clock: Clock; random: Random },
): Promise<DirectoryLock> {
  await mkdir(directory, { recursive: true });
  const real = await realpath(directory);
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
    // Nobody sees it half written, and so without what tells whether its owner can be asked for.
    await writeFile(`${path}.new`, JSON.stringify(own), { flag: "wx" });
    await rename(`${path}.new`, path);
    const release = async () => {
      await rm(path, { force: true });
      // Its file goes with it.
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
  /** Set when it is a process of another machine, so that we cannot ask for it. */
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

/** Null when the file has gone meanwhile. One that a power failure has spoilt still names a pid. */
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
    // Somebody else's process (EPERM) is alive too.
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
  }
  const startedAt = startOf(owner.pid);
  // Where its start cannot be read, whoever has the pid may be the owner.
  return owner.startedAt === null || startedAt === null || owner.startedAt === startedAt;
}

function socketOf(file: string): string {
  return file.replace(/\.lock$/, ".sock");
}

/** Null where the file system has no sockets, or none with so long a path. */
function listenAt(path: string): Promise<Server | null> {
  if (process.platform !== "linux" || Buffer.byteLength(path) > LONGEST_SOCKET_PATH_BYTES) {
    return Promise.resolve(null);
  }
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy());
    server.unref();
    server.once("error", () => resolve(null));
    server.listen(path, () => resolve(server));
  });
}

/** Whether somebody listens there; unless it is certain that nobody does, somebody may. */
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

/** What tells this incarnation of a pid from others; null where the system does not say. */
function startOf(pid: number): string | null {
  try {
    if (process.platform === "linux") return linuxStartOf(pid);
    if (process.platform === "win32") return null;
    return execFileSync("ps", ["-o", "lstart=", "-p", `${pid}`], { encoding: "utf8" }).trim();
  } catch {
    return null;
  }
}

/** Ticks since the boot, and which boot; a process that waits to be reaped has ended. */
function linuxStartOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The second field, the name in parentheses, may contain anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const state = fields[0];
  return state === "Z" || state === "X" ? "ended" : `${fields[19]} ${bootId()}`;
}

function inUse(directory: string, { pid, host, file }: Other): string {
  const who = host === null ? `process ${pid}` : `process ${pid} of another machine, "${host}"`;
  const remedy =
    host === null
      ? "stop it, or let this process reach it over HTTP or use a PostgreSQL server for both"
      : `if that machine is gone, delete ${file}`;
  return `the PGlite directory ${directory} is open in ${who}; only one process can open it: ${remedy}`;
}

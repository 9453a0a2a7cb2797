/** Real Redis servers for tests, from Debian's package redis-server: each a process of its own. */
import { spawnSync } from "node:child_process";
import { Redis } from "ioredis";
import { describeUnless, freePort } from "./postgres.js";
import { Child, temporaryFolder } from "./processes.js";

function missingRedis(): string | null {
  const found = spawnSync("redis-server", ["--version"]).status === 0;
  return found ? null : "no redis-server: apt-get install redis-server";
}

/** `describe` for tests that need a server. */
export function describeRedis(name: string, tests: () => void): void {
  describeUnless(missingRedis(), name, tests);
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Undefined while it does not run. */
  readonly process: Child | undefined;
  /** Asks it by a connection of its own, such as `["config", "set", "maxmemory", "0"]`. */
  ask(...command: [string, ...(string | number)[]]): Promise<unknown>;
  /** After kill9(): the same data on the same port. Resolves when it answers. */
  start(): Promise<void>;
  kill9(): Promise<void>;
  /** Ends it, and what ask() has opened. */
  remove(): Promise<void>;
}

/**
 * @param settings such as `{ appendonly: "yes" }`; default: nothing is kept on disk
 */
export async function startRedis(
  settings: Readonly<Record<string, string>> = {},
): Promise<RedisServer> {
  const port = await freePort();
  const folder = await temporaryFolder();
  const all = { port: `${port}`, bind: "127.0.0.1", dir: folder, save: "", ...settings };
  const args = Object.entries(all).flatMap(([name, value]) => [`--${name}`, ...valuesOf(value)]);
  let process: Child | undefined;
  // The first answer comes when the data has been read.
  const admin = new Redis({
    port,
    host: "127.0.0.1",
    lazyConnect: true,
    maxRetriesPerRequest: null,
  });
  admin.on("error", () => {});
  const start = async () => {
    process = new Child("redis-server", args);
    await process.listening(port);
    if (settings.requirepass === undefined) await admin.call("ping");
  };
  const kill9 = async () => {
    await process?.end("SIGKILL");
    process = undefined;
  };
  await start();
  return {
    ...{ port, start, kill9 },
    url: `redis://127.0.0.1:${port}`,
    get process() {
      return process;
    },
    ask: (command, ...args) => admin.call(command, ...args),
    async remove() {
      admin.disconnect();
      await kill9();
    },
  };
}

/** `""` is said as an empty argument. */
function valuesOf(value: string): string[] {
  return value === "" ? [""] : value.split(" ");
}

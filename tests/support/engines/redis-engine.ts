/**
 * Real Redis servers for tests, from Debian's package redis-server, and Valkey from scripts/get-servers.sh: each a process
 * of its own.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { Child, temporaryFolder } from "../processes/processes.js";
import { freePort } from "./free-port.js";
import { describeUnless, describeWherePossible } from "./postgres.js";

const FETCHED = fileURLToPath(new URL("../../../.servers/valkey-server", import.meta.url));
export const VALKEY = existsSync(FETCHED) ? FETCHED : "valkey-server";

/** Or another that speaks its protocol, such as Valkey. */
const REDIS = process.env.TEST_REDIS_SERVER ?? "redis-server";

export function missingRedis(): string | null {
  const found = spawnSync(REDIS, ["--version"]).status === 0;
  return found ? null : "no redis-server: apt-get install redis-server";
}

function missingValkey(): string | null {
  const found = spawnSync(VALKEY, ["--version"]).status === 0;
  return found ? null : "no valkey-server: scripts/get-servers.sh";
}

/** `describe` for tests that need Valkey. */
export function describeValkey(name: string, tests: () => void): void {
  describeWherePossible(missingValkey(), name, tests);
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

export interface RedisProgram {
  /** Default: redis-server, or what TEST_REDIS_SERVER names. */
  readonly program?: string;
  /** How ask() connects, where the settings have TLS alone. */
  readonly tls?: ConnectionOptions;
}

/**
 * @param settings such as `{ appendonly: "yes" }`; default: nothing is kept on disk
 */
export async function startRedis(
  settings: Readonly<Record<string, string>> = {},
  { program = REDIS, tls }: RedisProgram = {},
): Promise<RedisServer> {
  const port = await freePort();
  const folder = await temporaryFolder();
  const ports = tls ? { port: "0", "tls-port": `${port}` } : { port: `${port}` };
  const all = { ...ports, bind: "127.0.0.1", dir: folder, save: "", ...settings };
  const args = Object.entries(all).flatMap(([name, value]) => [`--${name}`, ...valuesOf(value)]);
  let process: Child | undefined;
  // The first answer comes when the data has been read.
  const admin = new Redis({
    port,
    host: "127.0.0.1",
    lazyConnect: true,
    maxRetriesPerRequest: null,
    ...(settings.requirepass !== undefined && { password: settings.requirepass }),
    ...(tls && { tls }),
  });
  admin.on("error", () => {});
  const start = async () => {
    process = new Child(program, args);
    await process.listening(port);
    await admin.call("ping");
  };
  const kill9 = async () => {
    await process?.end("SIGKILL");
    process = undefined;
  };
  await start();
  return {
    port,
    start,
    kill9,
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

export interface Sentinels {
  readonly ports: readonly number[];
  /** Resolves when each of them knows so many replicas, and the two others: before that, they may find no successor. */
  agree(name: string, replicas: number): Promise<void>;
  remove(): Promise<void>;
}

/**
 * Three of them, of which two decide.
 * @param monitored the port of each primary, by its name
 * @param settings lines of the configuration
 */
export async function startSentinels(
  monitored: Readonly<Record<string, number>>,
  settings: readonly string[] = [],
  { program = REDIS, tls }: RedisProgram = {},
): Promise<Sentinels> {
  const started = Array.from({ length: 3 }, async () => {
    const port = await freePort();
    const folder = await temporaryFolder();
    const file = join(folder, "sentinel.conf");
    const lines = [
      ...(tls ? ["port 0", `tls-port ${port}`] : [`port ${port}`]),
      "bind 127.0.0.1",
      `dir ${folder}`,
      ...Object.entries(monitored).flatMap(([name, primary]) => [
        `sentinel monitor ${name} 127.0.0.1 ${primary} 2`,
        `sentinel down-after-milliseconds ${name} 1000`,
        // A vote without a winner is repeated after twice this time: by default after six minutes.
        `sentinel failover-timeout ${name} 10000`,
      ]),
      ...settings,
    ];
    await writeFile(file, `${lines.join("\n")}\n`);
    const child = new Child(program, [file, "--sentinel"]);
    await child.listening(port);
    return { port, child };
  });
  const all = await Promise.all(started);
  return {
    ports: all.map(({ port }) => port),
    async agree(name, replicas) {
      const [, password] =
        settings.find((line) => line.startsWith("requirepass "))?.split(" ") ?? [];
      const login = { ...(password !== undefined && { password }), ...(tls && { tls }) };
      for (const { port } of all) {
        const asked = new Redis({ port, host: "127.0.0.1", ...login });
        const count = async (what: string) =>
          ((await asked.call("sentinel", what, name)) as []).length;
        while ((await count("replicas")) < replicas || (await count("sentinels")) < 2) {
          await delay(20);
        }
        asked.disconnect();
      }
    },
    async remove() {
      await Promise.all(all.map(({ child }) => child.end("SIGKILL")));
    },
  };
}

export interface RedisCluster {
  /** All of its nodes. */
  readonly url: string;
  readonly nodes: readonly RedisServer[];
  /** By the index of a node: which one has the slot. */
  ownerOf(slot: number): Promise<RedisServer>;
  remove(): Promise<void>;
}

const SLOTS = 16_384;

/** Of primaries alone, the slots spread evenly. Resolves when all of them take every slot for served. */
export async function startRedisCluster(size = 3): Promise<RedisCluster> {
  const started = Array.from({ length: size }, async () => {
    // By default the nodes talk at their port + 10,000, which may be the port of any client on the machine.
    const busPort = await freePort();
    const settings = {
      "cluster-enabled": "yes",
      "cluster-node-timeout": "2000",
      "cluster-port": `${busPort}`,
    };
    return { node: await startRedis(settings), busPort };
  });
  const all = await Promise.all(started);
  const nodes = all.map(({ node }) => node);
  const [first] = nodes;
  if (!first) throw new Error("a cluster has a node");
  for (const [index, node] of nodes.entries()) {
    const from = Math.ceil((index * SLOTS) / size);
    const to = Math.ceil(((index + 1) * SLOTS) / size) - 1;
    await node.ask("cluster", "addslotsrange", from, to);
    // Else all would begin with the same one, and find that out the slow way.
    await node.ask("cluster", "set-config-epoch", index + 1);
  }
  for (const { node, busPort } of all.slice(1)) {
    await first.ask("cluster", "meet", "127.0.0.1", node.port, busPort);
  }
  for (const node of nodes) {
    while (!/cluster_state:ok/.test(String(await node.ask("cluster", "info")))) await delay(20);
    while ((await slotsOf(node)).length < size) await delay(20);
  }
  return {
    url: `redis://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    nodes,
    async ownerOf(slot) {
      for (const [from, to, [, port]] of await slotsOf(first)) {
        const owner = nodes.find((node) => node.port === port);
        if (slot >= from && slot <= to && owner) return owner;
      }
      throw new Error(`no node has slot ${slot}`);
    },
    async remove() {
      await Promise.all(nodes.map((node) => node.remove()));
    },
  };
}

async function slotsOf(node: RedisServer) {
  return (await node.ask("cluster", "slots")) as [number, number, [string, number, string]][];
}

/** `""` is said as an empty argument. */
function valuesOf(value: string): string[] {
  return value === "" ? [""] : value.split(" ");
}

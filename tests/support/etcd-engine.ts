/** Real etcd members for tests, from Debian's packages etcd-server and etcd-client. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describeUnless, freePort } from "./postgres.js";
import { Child, type Ended, temporaryFolder } from "./processes.js";

export function missingEtcd(): string | null {
  const found = ["etcd", "etcdctl"].every((name) => spawnSync(name, ["--help"]).status === 0);
  return found ? null : "no etcd or no etcdctl: apt-get install etcd-server etcd-client";
}

/** `describe` for tests that need a server. */
export function describeEtcd(name: string, tests: () => void): void {
  describeUnless(missingEtcd(), name, tests);
}

export interface EtcdServer {
  readonly url: string;
  readonly port: number;
  /** Undefined while it does not run. */
  readonly process: Child | undefined;
  /** After kill9(): the same data on the same port. Resolves when it has a leader. */
  start(): Promise<void>;
  /** After kill9(), of the only member: on the data of `etcdctl snapshot save`, as a new cluster. */
  startFrom(snapshot: string): Promise<void>;
  kill9(): Promise<void>;
  /** etcdctl, at work until it ends or is ended. */
  etcdctl(...args: readonly string[]): Child;
  /** etcdctl, with what it printed. Rejects unless it succeeds. */
  ask(...args: readonly string[]): Promise<string>;
  remove(): Promise<void>;
}

export async function startEtcd(settings: readonly string[] = []): Promise<EtcdServer> {
  const [server] = await startEtcdCluster(1, settings);
  if (!server) throw new Error("one was started");
  return server;
}

/** Members of one cluster, all running. */
export async function startEtcdCluster(
  size: number,
  settings: readonly string[] = [],
): Promise<EtcdServer[]> {
  const members = await Promise.all(
    Array.from({ length: size }, async (_, at) => ({
      name: `m${at}`,
      port: await freePort(),
      peerPort: await freePort(),
      folder: await temporaryFolder(),
    })),
  );
  const cluster = members.map(({ name, peerPort }) => `${name}=http://127.0.0.1:${peerPort}`);
  const servers = members.map(({ name, port, peerPort, folder }): EtcdServer => {
    const [client, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
    const identity = [
      `--name=${name}`,
      `--initial-cluster=${cluster.join(",")}`,
      `--initial-advertise-peer-urls=${peer}`,
    ];
    const args = [
      ...identity,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      "--logger=zap",
      "--log-level=error",
      ...settings,
    ];
    let data = folder;
    let process: Child | undefined;
    const server: EtcdServer = {
      port,
      url: `etcd://127.0.0.1:${port}`,
      get process() {
        return process;
      },
      async start() {
        process = new Child("etcd", [...args, `--data-dir=${data}`]);
        await process.listening(port);
        while (!(await isHealthy(client))) await delay(20);
      },
      async startFrom(snapshot) {
        data = join(await temporaryFolder(), "restored");
        await server.ask("snapshot", "restore", snapshot, `--data-dir=${data}`, ...identity);
        await server.start();
      },
      async kill9() {
        await process?.end("SIGKILL");
        process = undefined;
      },
      etcdctl: (...rest) => etcdctl(port, ...rest),
      async ask(...rest) {
        const { code, stdout, stderr }: Ended = await server.etcdctl(...rest).ended;
        if (code !== 0) throw new Error(`etcdctl ${rest.join(" ")}: ${stderr}`);
        return stdout;
      },
      remove: () => server.kill9(),
    };
    return server;
  });
  // Each becomes healthy when a majority runs.
  await Promise.all(servers.map((server) => server.start()));
  return servers;
}

/** etcdctl, at work until it ends or is ended, on the member at this port. */
export function etcdctl(port: number, ...args: readonly string[]): Child {
  return new Child("etcdctl", [`--endpoints=http://127.0.0.1:${port}`, ...args], {
    env: { PATH: process.env.PATH, ETCDCTL_API: "3" },
  });
}

async function isHealthy(client: string): Promise<boolean> {
  try {
    const answer = await fetch(`${client}/health`, { signal: AbortSignal.timeout(2_000) });
    return ((await answer.json()) as { health?: unknown }).health === "true";
  } catch {
    return false;
  }
}

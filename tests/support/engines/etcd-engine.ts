/** Real etcd members for tests, from Debian's packages etcd-server and etcd-client. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Child, type Ended, temporaryFolder } from "../processes/processes.js";
import type { Certificate } from "../server/certificates.js";
import { freePort } from "./free-port.js";
import { describeUnless } from "./postgres.js";

export function missingEtcd(): string | null {
  const found = ["etcd", "etcdctl"].every((name) => spawnSync(name, ["--help"]).status === 0);
  return found ? null : "no etcd or no etcdctl: apt-get install etcd-server etcd-client";
}

/** `describe` for tests that need a server. */
export function describeEtcd(name: string, tests: () => void): void {
  describeUnless(missingEtcd(), name, tests);
}

/** TLS for clients; between the members there is none. */
interface EtcdTls {
  /** The authority of the clients' certificates, without which the members refuse them. */
  readonly authority: string;
  readonly server: Certificate;
  /** What etcdctl shows. */
  readonly client: Certificate;
}

interface EtcdSettings {
  readonly settings?: readonly string[];
  readonly tls?: EtcdTls;
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

export async function startEtcd(settings?: EtcdSettings): Promise<EtcdServer> {
  const [server] = await startEtcdCluster(1, settings);
  if (!server) throw new Error("one was started");
  return server;
}

/** Members of one cluster, all running. */
export async function startEtcdCluster(
  size: number,
  { settings = [], tls }: EtcdSettings = {},
): Promise<EtcdServer[]> {
  const members = await Promise.all(
    Array.from({ length: size }, async (_, at) => ({
      name: `m${at}`,
      port: await freePort(),
      peerPort: await freePort(),
      healthPort: await freePort(),
      folder: await temporaryFolder(),
    })),
  );
  const cluster = members.map(({ name, peerPort }) => `${name}=http://127.0.0.1:${peerPort}`);
  const scheme = tls ? "https" : "http";
  const servers = members.map(({ name, port, peerPort, healthPort, folder }): EtcdServer => {
    const [client, peer] = [`${scheme}://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
    const health = `http://127.0.0.1:${healthPort}`;
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
      `--listen-metrics-urls=${health}`,
      ...(tls ? tlsFlags(tls) : []),
      "--logger=zap",
      "--log-level=error",
      ...settings,
    ];
    let data = folder;
    let process: Child | undefined;
    const server: EtcdServer = {
      port,
      url: `${tls ? "etcds" : "etcd"}://127.0.0.1:${port}`,
      get process() {
        return process;
      },
      async start() {
        process = new Child("etcd", [...args, `--data-dir=${data}`]);
        await process.listening(port);
        while (!(await isHealthy(health))) await delay(20);
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
      etcdctl: (...rest) => startEtcdctl(client, [...(tls ? clientFlags(tls) : []), ...rest]),
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
  return startEtcdctl(`http://127.0.0.1:${port}`, args);
}

function startEtcdctl(endpoint: string, args: readonly string[]): Child {
  return new Child("etcdctl", [`--endpoints=${endpoint}`, ...args], {
    env: { PATH: process.env.PATH, ETCDCTL_API: "3" },
  });
}

/** The users and their roles, each with rights below one prefix; `root` has the password `toor`. */
export async function addUsers(
  server: EtcdServer,
  users: Readonly<Record<string, { readonly password: string; readonly prefix: string }>>,
): Promise<void> {
  await server.ask("user", "add", "root:toor");
  await server.ask("user", "grant-role", "root", "root");
  for (const [name, { password, prefix }] of Object.entries(users)) {
    await server.ask("role", "add", name);
    await server.ask("role", "grant-permission", name, "--prefix=true", "readwrite", prefix);
    await server.ask("user", "add", `${name}:${password}`);
    await server.ask("user", "grant-role", name, name);
  }
  await server.ask("auth", "enable");
}

function tlsFlags({ authority, server }: EtcdTls): string[] {
  return [
    `--cert-file=${server.certificate}`,
    `--key-file=${server.key}`,
    `--trusted-ca-file=${authority}`,
    "--client-cert-auth",
  ];
}

function clientFlags({ authority, client }: EtcdTls): string[] {
  return [`--cacert=${authority}`, `--cert=${client.certificate}`, `--key=${client.key}`];
}

async function isHealthy(origin: string): Promise<boolean> {
  try {
    const answer = await fetch(`${origin}/health`, { signal: AbortSignal.timeout(2_000) });
    return ((await answer.json()) as { health?: unknown }).health === "true";
  } catch {
    return false;
  }
}

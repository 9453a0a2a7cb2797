/** Real Consul agents for tests, from scripts/get-servers.sh. */

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Child, type Ended, temporaryFolder } from "../processes/processes.js";
import type { Certificate } from "../server/certificates.js";
import { freePort } from "./free-port.js";
import { describeWherePossible } from "./postgres.js";

const FETCHED = fileURLToPath(new URL("../../../.servers/consul", import.meta.url));
const PROGRAM = existsSync(FETCHED) ? FETCHED : "consul";

export function missingConsul(): string | null {
  const isThere = spawnSync(PROGRAM, ["version"]).status === 0;
  return isThere ? null : "no consul: scripts/get-servers.sh";
}

/** `describe` for tests that need a server. */
export function describeConsul(name: string, tests: () => void): void {
  describeWherePossible(missingConsul(), name, tests);
}

/** TLS for clients, at a port of its own. */
interface ConsulTls {
  /** The authority of the clients' certificates, without which the server refuses them. */
  readonly authority: string;
  readonly server: Certificate;
}

export interface ConsulServer {
  /** `consul://127.0.0.1:PORT`. */
  readonly url: string;
  readonly port: number;
  /** 0 without TLS. */
  readonly securePort: number;
  readonly name: string;
  /** Undefined while it does not run. */
  readonly process: Child | undefined;
  /** After kill9(): the same data on the same port. Resolves when it has a leader. */
  start(): Promise<void>;
  kill9(): Promise<void>;
  isLeader(): Promise<boolean>;
  /** The consul program against this server, at work until it ends or is ended. */
  consul(...args: readonly string[]): Child;
  /** The same, with what it printed. Rejects unless it succeeds. */
  ask(...args: readonly string[]): Promise<string>;
  /** The HTTP API, below /v1/. Rejects unless the status is 200. */
  api(method: string, path: string, body?: unknown): Promise<unknown>;
  remove(): Promise<void>;
}

export interface ConsulSettings {
  /** Of the configuration file. */
  readonly config?: object;
  /** What `consul` and `api` authenticate by. */
  readonly token?: string;
  readonly tls?: ConsulTls;
}

export async function startConsul(settings?: ConsulSettings): Promise<ConsulServer> {
  const [server] = await startConsulCluster(1, settings);
  if (!server) throw new Error("one was started");
  return server;
}

/** Servers of one datacenter, all running, with a leader among them. */
export async function startConsulCluster(
  size: number,
  { config = {}, token = "", tls }: ConsulSettings = {},
): Promise<ConsulServer[]> {
  const members = await Promise.all(
    Array.from({ length: size }, async (_, at) => ({
      name: `s${at}`,
      folder: await temporaryFolder(),
      ports: { http: await freePort(), server: await freePort(), serf_lan: await freePort() },
      securePort: tls ? await freePort() : 0,
    })),
  );
  const joined = members.map(({ ports }) => `127.0.0.1:${ports.serf_lan}`);
  const servers = members.map(({ name, folder, ports, securePort }): ConsulServer => {
    const file = join(folder, "consul.json");
    const settings = {
      server: true,
      node_name: name,
      data_dir: join(folder, "data"),
      bind_addr: "127.0.0.1",
      client_addr: "127.0.0.1",
      bootstrap_expect: size,
      retry_join: size > 1 ? joined : [],
      retry_interval: "1s",
      ports: { ...ports, https: securePort || -1, serf_wan: -1, dns: -1, grpc: -1 },
      ...(tls && {
        ca_file: tls.authority,
        cert_file: tls.server.certificate,
        key_file: tls.server.key,
        verify_incoming_https: true,
      }),
      // Elections within a second, as on a network: the default is for small virtual machines.
      performance: { raft_multiplier: 1 },
      // All test clients have one address.
      limits: { http_max_conns_per_client: 10_000 },
      log_level: "err",
      disable_update_check: true,
      enable_script_checks: false,
      ...config,
    };
    const address = `http://127.0.0.1:${ports.http}`;
    const env = { PATH: process.env.PATH, CONSUL_HTTP_ADDR: address, CONSUL_HTTP_TOKEN: token };
    let child: Child | undefined;
    const server: ConsulServer = {
      name,
      port: ports.http,
      securePort,
      url: `consul://127.0.0.1:${ports.http}`,
      get process() {
        return child;
      },
      async start() {
        await writeFile(file, JSON.stringify(settings));
        child = new Child(PROGRAM, ["agent", `-config-file=${file}`]);
        await child.listening(ports.http);
        while (!(await isReady(address, token))) await delay(20);
      },
      async kill9() {
        await child?.end("SIGKILL");
        child = undefined;
      },
      async isLeader() {
        return (await leaderOf(address)) === `127.0.0.1:${ports.server}`;
      },
      consul: (...args) => new Child(PROGRAM, args, { env }),
      async ask(...args) {
        const { code, stdout, stderr }: Ended = await server.consul(...args).ended;
        if (code !== 0) throw new Error(`consul ${args.join(" ")}: ${stderr}`);
        return stdout;
      },
      async api(method, path, body) {
        const response = await fetch(`${address}/v1/${path}`, {
          method,
          headers: { "x-consul-token": token },
          ...(body !== undefined && { body: JSON.stringify(body) }),
        });
        const text = await response.text();
        if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`);
        return JSON.parse(text || "null");
      },
      remove: () => server.kill9(),
    };
    return server;
  });
  await Promise.all(servers.map((server) => server.start()));
  return servers;
}

async function leaderOf(address: string): Promise<string> {
  try {
    const answer = await fetch(`${address}/v1/status/leader`, {
      signal: AbortSignal.timeout(2_000),
    });
    return (await answer.json()) as string;
  } catch {
    return "";
  }
}

/** With a leader that serves: sessions need the node of the agent, which it registers later. */
async function isReady(address: string, token: string): Promise<boolean> {
  if ((await leaderOf(address)) === "") return false;
  const headers = { "x-consul-token": token };
  try {
    const made = await fetch(`${address}/v1/session/create`, {
      method: "PUT",
      headers,
      body: JSON.stringify({ NodeChecks: [], TTL: "10s" }),
      signal: AbortSignal.timeout(2_000),
    });
    if (made.status !== 200) return false;
    const { ID } = (await made.json()) as { ID: string };
    await fetch(`${address}/v1/session/destroy/${ID}`, { method: "PUT", headers });
    return true;
  } catch {
    return false;
  }
}

/** Real ZooKeeper servers for tests, from Debian's package zookeeper: each a process of its own. */
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Child, temporaryFolder } from "../processes/processes.js";
import type { Certificate } from "../server/certificates.js";
import { freePort } from "./free-port.js";
import { describeUnless } from "./postgres.js";

const JAR = "/usr/share/java/zookeeper.jar";
/** Short, so that sessions may be. */
const TICK_MS = 100;

export function missingZooKeeper(): string | null {
  return existsSync(JAR) ? null : "no ZooKeeper: apt-get install zookeeper";
}

/** `describe` for tests that need a server. */
export function describeZooKeeper(name: string, tests: () => void): void {
  describeUnless(missingZooKeeper(), name, tests);
}

/** TLS for clients, at a port of its own. */
interface ZooKeeperTls {
  /** The authority of the clients' certificates, without which the server refuses them. */
  readonly authority: string;
  readonly server: Certificate;
}

export interface ZooKeeperServer {
  readonly port: number;
  /** 0 without TLS. */
  readonly securePort: number;
  /** `zookeeper://127.0.0.1:PORT`. */
  readonly url: string;
  /** Undefined while it does not run. */
  readonly process: Child | undefined;
  /** After kill9(): the same data on the same port. Resolves when it serves. */
  start(): Promise<void>;
  kill9(): Promise<void>;
  /** `leader`, `follower`, `standalone`, or `read-only`; empty while it does not serve. */
  mode(): Promise<string>;
  remove(): Promise<void>;
}

/**
 * One server by itself. It keeps its data from one start to the next.
 * @param settings such as `{ minSessionTimeout: 4_000 }`
 */
export async function startZooKeeper(
  settings: Readonly<Record<string, number>> = {},
  tls?: ZooKeeperTls,
): Promise<ZooKeeperServer> {
  const server = await prepare({ settings, tls });
  await server.start();
  return server;
}

/**
 * Servers that elect a leader among them. Resolves when all of them serve.
 * @param properties of Java, such as `readonlymode.enabled=true`, by which a server without a leader serves reads
 */
export async function startEnsemble(
  size = 3,
  tls?: ZooKeeperTls,
  properties: readonly string[] = [],
): Promise<readonly ZooKeeperServer[]> {
  const ids = Array.from({ length: size }, (_, at) => at + 1);
  const peers: string[] = [];
  for (const id of ids) {
    peers.push(`server.${id}=127.0.0.1:${await freePort()}:${await freePort()}`);
  }
  const servers = await Promise.all(ids.map((id) => prepare({ id, peers, tls, properties })));
  await Promise.all(servers.map((server) => server.start()));
  return servers;
}

async function prepare({
  id,
  peers = [],
  settings = {},
  tls,
  properties = [],
}: {
  id?: number;
  peers?: readonly string[];
  settings?: Readonly<Record<string, number>>;
  tls?: ZooKeeperTls | undefined;
  properties?: readonly string[];
}): Promise<ZooKeeperServer> {
  const folder = await temporaryFolder();
  const data = join(folder, "data");
  await mkdir(data);
  const port = await freePort();
  const securePort = tls ? await freePort() : 0;
  const config = join(folder, "zoo.cfg");
  const lines = [
    `tickTime=${TICK_MS}`,
    `dataDir=${data}`,
    `clientPort=${port}`,
    "clientPortAddress=127.0.0.1",
    "admin.enableServer=false",
    "maxClientCnxns=0",
    "maxSessionTimeout=120000",
    "initLimit=100",
    "syncLimit=20",
    "4lw.commands.whitelist=srvr,dump",
    ...peers,
    ...(tls ? await tlsLines(tls, securePort, folder) : []),
    ...Object.entries(settings).map(([name, value]) => `${name}=${value}`),
  ];
  await writeFile(config, `${lines.join("\n")}\n`);
  if (id !== undefined) await writeFile(join(data, "myid"), `${id}\n`);
  let process: Child | undefined;
  const start = async () => {
    const main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
    // The class data archive and the simplest compiler: it is to start soon, on a small machine.
    const options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"];
    // A killed process loses nothing by that, only a machine would.
    const fast = ["zookeeper.forceSync=no", ...properties].map((property) => `-D${property}`);
    process = new Child(
      "java",
      [...options, ...fast, "-cp", [JAR, LOGGING, ...NETTY].join(":"), main, config],
      {
        cwd: folder,
      },
    );
    await process.listening(port);
    // Of an ensemble, when it has a leader.
    while ((await modeOf(port)) === "") await delay(20);
  };
  const kill9 = async () => {
    await process?.end("SIGKILL");
    process = undefined;
  };
  return {
    port,
    securePort,
    start,
    kill9,
    remove: kill9,
    mode: () => modeOf(port),
    url: `zookeeper://127.0.0.1:${port}`,
    get process() {
      return process;
    },
  };
}

async function tlsLines(
  { authority, server }: ZooKeeperTls,
  port: number,
  folder: string,
): Promise<string[]> {
  const pem = join(folder, "server.pem");
  await writeFile(
    pem,
    (await readFile(server.key, "utf8")) + (await readFile(server.certificate, "utf8")),
  );
  return [
    `secureClientPort=${port}`,
    "secureClientPortAddress=127.0.0.1",
    "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
    `ssl.keyStore.location=${pem}`,
    "ssl.keyStore.type=PEM",
    `ssl.trustStore.location=${authority}`,
    "ssl.trustStore.type=PEM",
    "ssl.clientAuth=need",
  ];
}

/** As the server says to the four letters `srvr`; empty while it does not serve. */
function modeOf(port: number): Promise<string> {
  return new Promise((resolve) => {
    let said = "";
    const socket = connect(port, "127.0.0.1", () => socket.write("srvr"));
    socket.on("data", (chunk) => {
      said += chunk.toString();
    });
    // While it starts it may take the question and never answer.
    socket.setTimeout(500, () => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", () => resolve(/^Mode: ([\w-]+)/m.exec(said)?.[1] ?? ""));
  });
}

/** Where messages go, if anywhere. */
const LOGGING = "/usr/share/java/slf4j-nop.jar";
/** What ZooKeeper needs for TLS and Debian's package does not name. */
const NETTY = ["codec", "resolver"].map((name) => `/usr/share/java/netty-${name}.jar`);

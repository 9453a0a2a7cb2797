/** URLs whose port belongs to another kind of server: real ones, and each scheme against each of them. */
import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect, migrate, StoreMisconfiguredError } from "../../packages/leasehold/src/index.js";
import { type FreshDatabase, freshDatabase } from "../support/engines/postgres.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { compile } from "../support/processes/compile.js";
import { temporaryFolder } from "../support/processes/processes.js";

type Kind = "Redis" | "PostgreSQL" | "HTTP" | "TLS";

/** A client that waits for it reports the store as unavailable. What answers there is known in less than a second. */
const TIMEOUT_MS = 20_000;

describeRedis("a URL with the port of another kind of server", () => {
  let redis: RedisServer;
  let database: FreshDatabase;
  let folder: string;
  const servers: (Server & { closeAllConnections(): void })[] = [];
  const ports = new Map<Kind, number>();

  const listen = async (server: Server & { closeAllConnections(): void }) => {
    servers.push(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    return (server.address() as AddressInfo).port;
  };

  beforeAll(async () => {
    folder = await temporaryFolder();
    const [key, cert] = [join(folder, "key"), join(folder, "cert")];
    const wanted = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split(" ");
    execFileSync("openssl", [...wanted, "-keyout", key, "-out", cert], { stdio: "ignore" });
    const pem = { key: readFileSync(key), cert: readFileSync(cert) };
    redis = await startRedis();
    database = await freshDatabase();
    ports.set("Redis", redis.port);
    ports.set("PostgreSQL", Number(new URL(database.url).port));
    ports.set("HTTP", await listen(createHttpServer((_, response) => response.end("<html>"))));
    ports.set("TLS", await listen(createHttpsServer(pem, (_, response) => response.end("<html>"))));
  });
  afterAll(async () => {
    for (const server of servers) {
      server.closeAllConnections();
      server.close();
    }
    await redis.remove();
    await database.drop();
  });

  const kubeconfig = async (server: string) => {
    const path = join(folder, `kubeconfig-${server.replaceAll(/\W+/g, "-")}`);
    const text = `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"c","cluster":{"server":"${server}"}}],"users":[{"name":"u","user":{"token":"t"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}]}`;
    await writeFile(path, text);
    return `kubernetes:default?kubeconfig=${path}`;
  };

  it.each<[scheme: string, kind: Kind, message: RegExp]>([
    [
      "postgres://u:secret@",
      "Redis",
      / answers as Redis, not as PostgreSQL: correct host and port$/,
    ],
    ["postgres://u:secret@", "HTTP", / answers as HTTP, not as PostgreSQL: /],
    ["postgres://u:secret@", "TLS", / answers as TLS, not as PostgreSQL: /],
    [
      "redis://u:secret@",
      "PostgreSQL",
      / answers as PostgreSQL, not as Redis: correct host and port$/,
    ],
    ["redis://u:secret@", "HTTP", /this is no server of Redis; check the host and the port/],
    ["redis://u:secret@", "TLS", / answers as TLS, not as Redis: write rediss:\/\/ for TLS$/],
    [
      "rediss://u:secret@",
      "Redis",
      / answers as Redis, not as TLS: it has no TLS, so write redis:/,
    ],
    ["rediss://u:secret@", "PostgreSQL", / answers as PostgreSQL, not as TLS: /],
    [
      "rediss://u:secret@",
      "TLS",
      /^Redis: .*its certificate is not trusted \(DEPTH_ZERO_SELF_SIGNED/,
    ],
    ["http://", "Redis", / answers as Redis, not as HTTP: correct host and port$/],
    ["http://", "PostgreSQL", / answers as PostgreSQL, not as HTTP: /],
    ["http://", "TLS", / answers as TLS, not as HTTP: the URL must ask for TLS$/],
    ["http://", "HTTP", /is this the URL of a Leasehold server\?$/],
    ["https://", "Redis", / answers as Redis, not as TLS: /],
    ["https://", "HTTP", / answers as HTTP, not as TLS: it has no TLS$/],
    ["https://", "TLS", /its certificate is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\)/],
    ["etcd://", "Redis", / answers as Redis, not as HTTP: correct host and port$/],
    ["etcd://", "PostgreSQL", / answers as PostgreSQL, not as HTTP: /],
    ["etcd://", "TLS", / answers as TLS, not as HTTP: /],
    ["etcds://", "Redis", / answers as Redis, not as TLS: /],
    ["consul://", "Redis", / answers as Redis, not as HTTP: correct host and port$/],
    ["consul://", "PostgreSQL", / answers as PostgreSQL, not as HTTP: /],
    ["consul://", "TLS", / answers as TLS, not as HTTP: the URL must ask for TLS$/],
    ["consul://", "HTTP", /is this the HTTP address of Consul 1\.7 or later\?$/],
    ["consuls://", "Redis", / answers as Redis, not as TLS: /],
    ["zookeeper://", "Redis", / answers as Redis, not as ZooKeeper: correct host and port$/],
    ["zookeeper://", "PostgreSQL", /not a ZooKeeper server: correct host and port/],
    ["zookeeper://", "TLS", / answers as TLS, not as ZooKeeper: write zookeepers:\/\/ for TLS$/],
    ["zookeepers://", "Redis", / answers as Redis, not as TLS: /],
    ["kubernetes:https://", "Redis", / answers as Redis, not as TLS: /],
    [
      "kubernetes:https://",
      "HTTP",
      /^the API server at \S+: it answers without TLS \(.*\); name its port for TLS/,
    ],
  ])("%s at a port of %s is refused with what answers there", async (scheme, kind, message) => {
    const place = `127.0.0.1:${ports.get(kind)}`;
    const source = scheme.startsWith("kubernetes:")
      ? await kubeconfig(`${scheme.slice("kubernetes:".length)}${place}`)
      : scheme + place;
    const error: unknown = await connect(source, { connectTimeoutMs: TIMEOUT_MS }).catch(
      (error: unknown) => error,
    );
    expect(error).toBeInstanceOf(StoreMisconfiguredError);
    expect(error).toMatchObject({ outcome: "none", message: expect.stringMatching(message) });
    expect(String(error)).not.toContain("secret");
  });

  it("lets the process end when it is refused", async () => {
    const program = await compile(
      new URL("../support/processes/give-up-and-idle.ts", import.meta.url),
    );
    const silent = `127.0.0.1:${ports.get("Redis")}`;
    const urls = [
      `postgres://u:p@${silent}/x`,
      `redis://127.0.0.1:${ports.get("HTTP")}`,
      `rediss://${silent}`,
      `zookeeper://${silent}`,
      `zookeepers://${silent}`,
      `https://${silent}`,
      `https://127.0.0.1:${ports.get("PostgreSQL")}`,
      `https://127.0.0.1:${ports.get("HTTP")}`,
      `etcds://${silent}`,
      await kubeconfig(`https://${silent}`),
    ];
    try {
      for (const url of urls) {
        const { stdout } = await promisify(execFile)(process.execPath, [program.path, url]);
        const expected = { url, code: "STORE_MISCONFIGURED", held: [] };
        expect({ url, ...(JSON.parse(stdout) as object) }).toEqual(expected);
      }
    } finally {
      await program.remove();
    }
  });

  it("is refused by migrate too", async () => {
    const url = `postgres://127.0.0.1:${ports.get("Redis")}/x`;
    await expect(migrate(url)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/ answers as Redis, not as PostgreSQL/),
    });
  });

  it("does not hide a server of the right kind that refuses for its own reason", async () => {
    const url = new URL(database.url);
    url.pathname = "/no-such-database";
    await expect(connect(url)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/does not exist; create the database/),
    });
  });

  it("says how to name a user where the server does not let this one in", async () => {
    const admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
    const url = new URL(database.url);
    url.username = `no_login_${process.pid}`;
    url.password = "x";
    await admin.query(`CREATE ROLE ${url.username} NOLOGIN PASSWORD 'x'`);
    try {
      await expect(connect(url)).rejects.toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(
          /name a user of the server in the URL, as in postgres:\/\/user@/,
        ),
      });
    } finally {
      await admin.query(`DROP ROLE ${url.username}`);
      await admin.end();
    }
  });
});

it.each([
  "postgres",
  "redis",
  "rediss",
  "http",
  "https",
  "etcd",
  "etcds",
  "zookeeper",
  "zookeepers",
  "consul",
  "consuls",
])("%s:// where nothing listens is reported as a call that changed nothing", async (scheme) => {
  // A port that was free just now.
  const server = createHttpServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  await once(server.close(), "close");
  const options = { connectTimeoutMs: 600 };
  await expect(connect(`${scheme}://127.0.0.1:${port}`, options)).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
    outcome: "none",
    message: expect.not.stringMatching(/may have taken effect/),
  });
});

/** How Redis is reached: by URLs, TLS, users and Sentinels, and what is said where something is wrong with them. */
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { redis } from "../../packages/leasehold/src/stores/redis/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { freePort } from "../support/engines/free-port.js";
import { refusal, works } from "../support/engines/reached-stores.js";
import {
  describeRedis,
  type RedisServer,
  type Sentinels,
  startRedis,
  startSentinels,
} from "../support/engines/redis-engine.js";
import { checkBuild, leasehold } from "../support/processes/cli.js";
import { endAll } from "../support/processes/processes.js";
import { type Certificate, newAuthority } from "../support/server/certificates.js";

const TTL = { ttlMs: 60_000 };

describe("a URL of Redis", () => {
  it.each([
    [
      "redis+sentinel://a,b",
      "the Redis URL is invalid: it has no name of a primary; write redis+sentinel://",
    ],
    [
      "redis+sentinel://me:secret@a/name/x",
      "the Redis URL is invalid: the database must be a number, such as /1; write redis+sentinel://",
    ],
    [
      "redis://me:secret@a/x",
      "the Redis URL is invalid: the database must be a number, such as /1; write redis://",
    ],
    [
      "redis://me:secret@a/16x",
      "the Redis URL is invalid: the database must be a number, such as /1; write redis://",
    ],
    [
      "redis://me:secret@a/0x1",
      "the Redis URL is invalid: the database must be a number, such as /1; write redis://",
    ],
    [
      "redis://me:secret@:6379",
      "the Redis URL is invalid: a host, a port or an escape is wrong; write redis://",
    ],
    ["redis:///0", "the Redis URL is invalid: a host is missing, or a port is 0; write redis://"],
    ["redis://a,,b", "the Redis URL is invalid: a host is missing, or a port is 0; write redis://"],
    ["redis://a:0", "the Redis URL is invalid: a host is missing, or a port is 0; write redis://"],
    [
      "redis://me:sec?secret@a/0",
      "the Redis URL is invalid: a host, a port or an escape is wrong; write redis://",
    ],
    ["redis://a/-1", "the Redis URL is invalid: the database must be a number"],
    ["redis://a/ 1", "the Redis URL is invalid: the database must be a number"],
    ["redis://a#1", "source must not have a fragment: remove #"],
    ["redis://me:secret#secret@a", "source must not have a fragment: remove #"],
    ["redis://a?format=redlok", 'url: ?format must be "redlock" or'],
    ["rediss://a?ssl=false", "url: ?ssl is not a parameter of rediss: URLs"],
    ["rediss://a?cacert=~/ca.pem", "url: ?cacert must not begin with ~"],
    ["redis+sentinel://a/n?sentinelPassword=", "url: ?sentinelPassword must not be empty"],
    ["redis://a?cacert=/a", "url: ?cacert is not a parameter of redis: URLs"],
    [
      "redis://a?sentinelPassword=secret",
      "url: ?sentinelPassword is not a parameter of redis: URLs",
    ],
    ["rediss+sentinel://a/n?caert=/a", "did you mean ?cacert="],
    ["rediss://a?cert=/a", "url must name both ?cert= and ?key=, or neither"],
    ["rediss://a?cacert=/none/such", "the file /none/such for TLS to Redis: ENOENT"],
  ])("%s is refused", async (url, message) => {
    const refused = await refusal(url);
    expect(["INVALID_OPTION", "STORE_MISCONFIGURED"]).toContain(refused.code);
    expect(refused.message).toContain(message);
    expect(refused.message).not.toContain("secret");
  });
});

describeRedis("a server of Redis and a Sentinel", () => {
  let server: RedisServer;
  let sentinels: Sentinels;
  beforeAll(async () => {
    server = await startRedis();
    sentinels = await startSentinels({ main: server.port });
  });
  afterAll(async () => {
    await sentinels?.remove();
    await server?.remove();
    await endAll();
  });

  it("are not taken for each other", async () => {
    expect(await refusal(`redis+sentinel://127.0.0.1:${server.port}/main`)).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("no Sentinels: write redis://host:port") as string,
    });
    expect(await refusal(`redis://127.0.0.1:${sentinels.ports[0]}`)).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("is a Sentinel: write redis+sentinel://") as string,
    });
  });
});

describeRedis("Redis with TLS that asks for client certificates", () => {
  let certificates: Certificates;
  let server: RedisServer;
  beforeAll(async () => {
    certificates = await makeCertificates();
    server = await startRedis(tlsSettings(certificates), { tls: certificates.options });
  });
  afterAll(async () => {
    await server?.remove();
    await endAll();
  });
  const at = (files: Readonly<Record<string, string>>) =>
    `rediss://127.0.0.1:${server.port}?${new URLSearchParams(files)}`;

  it("is reached with its authority and a certificate", async () => {
    await works(at(certificates.files), TTL.ttlMs);
  });

  it("is not trusted without its authority", async () => {
    const { cert, key } = certificates.files;
    expect(await refusal(at({ cert, key }))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/its certificate is not trusted .*cacert/),
    });
  });

  it("refuses a client without a certificate, and says so", async () => {
    // Where its alert arrives too late, the connection is only reset.
    expect(await refusal(at({ cacert: certificates.files.cacert }))).toMatchObject({
      code: expect.stringMatching(/^STORE_(MISCONFIGURED|UNAVAILABLE)$/),
      message: expect.stringMatching(
        /asks for a certificate of the client.*name one by \?cert= and \?key=/,
      ),
    });
  });
});

describeRedis("a user of Redis with the rights of the README", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
    const rights = (
      "~leasehold:* &leasehold:* +info +script|load +evalsha +eval +time +@hash +@sortedset +pttl " +
      "+pexpireat +del +subscribe +unsubscribe +publish +ping"
    ).split(" ");
    await server.ask("acl", "setuser", "least", "on", ">se/cret", ...rights);
    await server.ask(
      "acl",
      "setuser",
      "reader",
      "on",
      ">se/cret",
      "~leasehold:*",
      "+info",
      "+@read",
    );
    await server.ask("acl", "setuser", "default", "off");
  });
  afterAll(async () => {
    await server?.remove();
    await endAll();
  });
  const at = (user: string, password = "se/cret") =>
    `redis://${user}:${encodeURIComponent(password)}@127.0.0.1:${server.port}`;

  it("acquires, waits, is woken, renews and lists", () => works(at("least"), TTL.ttlMs));

  it.each([
    ["reader", "se/cret", /NOPERM|No permission/],
    ["least", "mi/staken", /check the user and password of the URL/],
  ])("%s with the password %s is refused, and says why", async (user, password, message) => {
    const refused = await refusal(at(user, password));
    expect(refused).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(message),
    });
    expect(refused.message).not.toContain(password);
    expect(refused.message).not.toContain(encodeURIComponent(password));
  });

  it("doctor reads its settings, and shows no password", async () => {
    checkBuild();
    const args = ["doctor", "--json", "--for", "100ms", "--samples", "5", "--store", at("least")];
    const { code, stdout } = await leasehold(args);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      store: `redis://least:***@127.0.0.1:${server.port}`,
    });
    expect(stdout).not.toMatch(/se(\/|%2F)cret/);
  });
});

describe.each([false, true])("with TLS: %s", (isTls) => {
  describeRedis("Redis behind Sentinels", () => {
    let servers: RedisServer[];
    let sentinels: Sentinels;
    let query = "";
    beforeAll(async () => {
      const certificates = isTls ? await makeCertificates() : undefined;
      const program = certificates && { tls: certificates.options };
      const settings = {
        ...(certificates && { ...tlsSettings(certificates), "tls-replication": "yes" }),
        requirepass: "pass/word",
        masterauth: "pass/word",
      };
      servers = await Promise.all([startRedis(settings, program), startRedis(settings, program)]);
      const [primary, replica] = servers;
      await replica?.ask("replicaof", "127.0.0.1", primary?.port ?? 0);
      sentinels = await startSentinels(
        { app: primary?.port ?? 0 },
        [
          "sentinel auth-pass app pass/word",
          "requirepass guards",
          "sentinel sentinel-pass guards",
          ...(certificates
            ? [
                "tls-replication yes",
                ...Object.entries(tlsSettings(certificates)).map((pair) => pair.join(" ")),
              ]
            : []),
        ],
        program,
      );
      if (certificates) query = `&${new URLSearchParams({ ...certificates.files })}`;
    });
    afterAll(async () => {
      await Promise.all(servers.map((server) => server.remove()));
      await endAll();
    });
    const scheme = isTls ? "rediss" : "redis";
    const hosts = () => sentinels.ports.map((port) => `127.0.0.1:${port}`).join(",");
    const at = (
      path = "/app",
      auth = ":pass%2Fword@",
      others = "sentinelPassword=guards",
      at = hosts(),
    ) => `${scheme}+sentinel://${auth}${at}${path}?${others}${query}`;

    it("is found, also behind a Sentinel that is down", async () => {
      const down = `127.0.0.1:${await freePort()}`;
      await works(
        at("/app", ":pass%2Fword@", "sentinelPassword=guards", `${down},${hosts()}`),
        TTL.ttlMs,
      );
    });

    it.each([
      ["another name", "/other", undefined, undefined, /check the name of the primary in the path/],
      [
        "a wrong password of the Sentinels",
        "/app",
        undefined,
        "sentinelPassword=mistaken",
        /check \?sentinelUsername= and \?sentinelPassword= of the URL/,
      ],
      ["a wrong password of Redis", "/app", ":mistaken@", undefined, /check the user and password/],
    ])("%s is refused, without a secret", async (_, path, auth, others, message) => {
      const refused = await refusal(at(path, auth, others));
      expect(refused.message).toMatch(message);
      expect(refused.message).not.toMatch(/pass(\/|%2F)word|guards|mistaken/);
    });

    it("is followed to the replica when the primary is killed", async () => {
      const [primary, replica] = servers;
      const info = async () => String(await replica?.ask("info", "replication"));
      while (!/master_link_status:up/.test(await info())) await delay(20);
      await sentinels.agree("app", 1);
      const client = await connect(redis({ url: at() }));
      const lease = await client.acquire("kept", TTL);
      const numberOf = async (server: RedisServer | undefined, field: string) => {
        const text = String(await server?.ask("info", "replication"));
        return Number(new RegExp(`^${field}:(\\d+)`, "m").exec(text)?.[1]);
      };
      const sent = await numberOf(primary, "master_repl_offset");
      // It grows on by itself.
      while ((await numberOf(replica, "slave_repl_offset")) < sent) await delay(20);
      await primary?.kill9();
      const isRenewed = () =>
        lease.renew().then(
          () => true,
          () => false,
        );
      await until(expect, "the replica serves", isRenewed);
      expect(await client.get("kept")).toMatchObject({ state: "live", token: lease.token });
      await lease.release();
      const next = await client.acquire("kept", TTL);
      expect(next.token).toBeGreaterThan(lease.token);
      await client.close();
    });
  });
});

interface Certificates {
  readonly server: Certificate;
  /** Of a URL. */
  readonly files: Readonly<Record<"cacert" | "cert" | "key", string>>;
  /** What `tls.connect` needs of a client. */
  readonly options: Readonly<Record<"ca" | "cert" | "key", string>>;
}

async function makeCertificates(): Promise<Certificates> {
  const authority = await newAuthority();
  const server = await authority.sign("server", ["127.0.0.1"]);
  const { certificate: cert, key } = await authority.sign("client");
  const text = (path: string) => readFile(path, "utf8");
  const [ca, ...own] = await Promise.all([authority.certificate, cert, key].map(text));
  return {
    server,
    files: { cacert: authority.certificate, cert, key },
    options: { ca: ca!, cert: own[0]!, key: own[1]! },
  };
}

function tlsSettings({ files, server }: Certificates): Record<string, string> {
  return {
    "tls-ca-cert-file": files.cacert,
    "tls-cert-file": server.certificate,
    "tls-key-file": server.key,
    "tls-auth-clients": "yes",
  };
}

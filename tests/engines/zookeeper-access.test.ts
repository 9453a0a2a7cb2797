/** ZooKeeper by TLS, and with znodes that belong to a user. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { CuratorClient } from "../support/engines/curator-client.js";
import { refusal } from "../support/engines/reached-stores.js";
import {
  describeZooKeeper,
  startEnsemble,
  startZooKeeper,
  type ZooKeeperServer,
} from "../support/engines/zookeeper-engine.js";
import { openTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.js";
import { endAll } from "../support/processes/processes.js";
import { type Certificate, newAuthority } from "../support/server/certificates.js";
import { expectNoSecrets, expectWithout, keepingLogger } from "../support/server/secrets.js";

const TTL = { ttlMs: 20_000 };
const PASSWORD = "pass/word";
const LOGIN = `apps:${encodeURIComponent(PASSWORD)}@`;
const SECRETS = [PASSWORD, encodeURIComponent(PASSWORD)];

interface Certificates {
  readonly authority: string;
  readonly server: Certificate;
  readonly client: Certificate;
  /** Of the same authority. */
  readonly other: Certificate;
  readonly stranger: Certificate;
}

async function makeCertificates(): Promise<Certificates> {
  const [authority, other] = await Promise.all([newAuthority(), newAuthority()]);
  return {
    authority: authority.certificate,
    server: await authority.sign("server", ["127.0.0.1", "localhost"]),
    // The server checks the address of the client too.
    client: await authority.sign("client", ["127.0.0.1", "localhost"]),
    other: await authority.sign("other", ["127.0.0.1", "localhost"]),
    stranger: await other.sign("client", ["127.0.0.1", "localhost"]),
  };
}

const filesOf = ({ authority }: Certificates, { certificate: cert, key }: Certificate) => ({
  cacert: authority,
  cert,
  key,
});

describe("a URL of ZooKeeper with certificates", () => {
  it.each([
    ["zookeeper://a?cacert=/a", "url: ?cacert is not a parameter of zookeeper: URLs"],
    ["zookeepers://a?caert=/a", "did you mean ?cacert="],
    ["zookeepers://a?cert=/a", "url must name both ?cert= and ?key=, or neither"],
    [
      "zookeepers://me:secret@a?cacert=/none/such",
      "the file /none/such for TLS to ZooKeeper: ENOENT",
    ],
  ])("%s is refused", async (url, message) => {
    const refused = await refusal(url);
    expect(["INVALID_OPTION", "STORE_MISCONFIGURED"]).toContain(refused.code);
    expect(refused.message).toContain(message);
    expect(refused.stack).not.toContain("secret");
  });
});

describe.each([false, true])("with TLS: %s", (isTls) => {
  describeZooKeeper("an ensemble whose znodes belong to a user", () => {
    let servers: readonly ZooKeeperServer[];
    let proxies: TcpProxy[];
    let query = "";
    let queryOfOthers = "";
    beforeAll(async () => {
      const certificates = isTls ? await makeCertificates() : undefined;
      servers = await startEnsemble(3, certificates);
      proxies = await Promise.all(
        servers.map(({ port, securePort }) => openTcpProxy({ port: securePort || port })),
      );
      if (certificates) {
        const { client, other } = certificates;
        query = `?${new URLSearchParams(filesOf(certificates, client))}`;
        queryOfOthers = `?${new URLSearchParams(filesOf(certificates, other))}`;
      }
    }, 60_000);
    afterAll(async () => {
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await endAll();
    });
    const at = (login = LOGIN, files = query) => {
      const hosts = proxies.map(({ port }) => `127.0.0.1:${port}`).join(",");
      return `${isTls ? "zookeepers" : "zookeeper"}://${login}${hosts}/locks${files}`;
    };
    const openOther = (auth?: string) =>
      CuratorClient.connect(`127.0.0.1:${servers[0]?.port}`).then((other) => {
        if (auth !== undefined) other.client.addAuthInfo("digest", Buffer.from(auth));
        return other;
      });

    it("refuses all others, who can neither take nor delete a lock, while its holder goes on", async () => {
      const [one, two] = [await connect(at()), await connect(at())];
      const lease = await one.acquire("report", TTL);
      const waiting = two.acquire("report", TTL);
      for (const login of ["", "apps:mistaken@", `other:${encodeURIComponent(PASSWORD)}@`]) {
        const refused = await refusal(at(login, queryOfOthers));
        expect(refused).toMatchObject({
          code: "STORE_MISCONFIGURED",
          message: expect.stringMatching(/NO_AUTH; use the user and password that own the znodes/),
        });
        expectWithout(refused.stack, [...SECRETS, "mistaken"]);
      }
      const own = await openOther(`apps:${PASSWORD}`);
      const [contender] = await own.children("/locks/report");
      const path = `/locks/report/${contender}`;
      const stranger = await openOther();
      const denied = { code: -102 };
      await expect(stranger.children("/locks/report")).rejects.toMatchObject(denied);
      await expect(stranger.data(path)).rejects.toMatchObject(denied);
      await expect(stranger.remove(path)).rejects.toMatchObject(denied);
      await expect(stranger.mutex("/locks/report").acquire()).rejects.toMatchObject(denied);
      await expect(stranger.mutex("/locks/other").acquire()).rejects.toMatchObject(denied);
      await Promise.all([own.close(), stranger.close()]);
      await lease.renew();
      await lease.release();
      const next = await waiting;
      expect(next.token).toBeGreaterThan(lease.token);
      await next.release();
      await Promise.all([one.close(), two.close()]);
    });

    it("knows its user again at another server, with the leases of the session", async () => {
      const { logger, logged } = keepingLogger();
      const client = await connect(at(), { logger });
      const lease = await client.acquire("kept", TTL);
      const used = proxies.findIndex(({ connections }) => connections.length > 0);
      await servers[used]?.kill9();
      const isRenewed = () =>
        lease.renew().then(
          () => true,
          () => false,
        );
      await until(expect, "another server renews", isRenewed);
      expect(await client.get("kept")).toMatchObject({ state: "live", token: lease.token });
      await lease.release();
      const next = await client.acquire("kept", TTL);
      expect(next.token).toBeGreaterThan(lease.token);
      await client.close();
      expectWithout(logged.join("\n"), SECRETS);
      await servers[used]?.start();
    });

    it("shows no password in doctor, nor in the arguments of processes", async () => {
      await expectNoSecrets(at(), SECRETS);
    });
  });
});

describeZooKeeper("a ZooKeeper that asks for client certificates", () => {
  let server: ZooKeeperServer;
  let certificates: Certificates;
  beforeAll(async () => {
    certificates = await makeCertificates();
    server = await startZooKeeper({}, certificates);
  }, 60_000);
  afterAll(() => endAll());
  const at = (files: Readonly<Record<string, string>>) =>
    `zookeepers://127.0.0.1:${server.securePort}/tls?${new URLSearchParams(files)}`;

  it("takes the certificates themselves as an option", async () => {
    const { authority, client } = certificates;
    const [ca, cert, key] = await Promise.all(
      [authority, client.certificate, client.key].map((path) => readFile(path, "utf8")),
    );
    const servers = [`localhost:${server.securePort}`];
    const leases = await connect(
      zookeeper({ servers, chroot: "/tls", tls: { ca: ca!, cert: cert!, key: key! } }),
    );
    await (await leases.acquire("by option", TTL)).release();
    await leases.close();
  });

  it("is not trusted without its authority", async () => {
    const { cert, key } = filesOf(certificates, certificates.client);
    expect(await refusal(at({ cert, key }))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        /its certificate is not trusted .*; name the file of its authority by \?cacert=/,
      ),
    });
  });

  it.each([
    ["without a certificate", () => ({ cacert: certificates.authority })],
    ["with a certificate of a stranger", () => filesOf(certificates, certificates.stranger)],
  ])("refuses a client %s, and says so", async (_, files) => {
    expect(await refusal(at(files()))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        /it asks for a certificate of the client that it trusts .*; name one by \?cert= and \?key=/,
      ),
    });
  });

  it("is reached behind a server whose certificate is not trusted", async () => {
    const { certificate, key } = certificates.stranger;
    const [cert, ownKey] = await Promise.all(
      [certificate, key].map((path) => readFile(path, "utf8")),
    );
    const untrusted = createServer({ cert: cert!, key: ownKey! }, (socket) => socket.destroy());
    untrusted.on("tlsClientError", () => {});
    await once(untrusted.listen(0, "127.0.0.1"), "listening");
    const { port } = untrusted.address() as AddressInfo;
    const url = at(filesOf(certificates, certificates.client)).replace(
      "://",
      `://127.0.0.1:${port},`,
    );
    // The first of the URL is asked first.
    const random = { ...systemEnv.random, float: () => 0 };
    const stores = await zookeeper({ url }).open({ ...systemEnv, random });
    expect(await stores.leases.get([{ namespace: "default", resource: "r" }])).toEqual([null]);
    await stores.close();
    await once(untrusted.close(), "close");
  });

  it("names the scheme for TLS, and for a server without", async () => {
    const plain = `zookeeper://127.0.0.1:${server.securePort}`;
    expect((await refusal(plain)).message).toMatch(
      /answers as TLS, .*write zookeepers:\/\/ for TLS/,
    );
    const files = filesOf(certificates, certificates.client);
    const without = at(files).replace(`:${server.securePort}/`, `:${server.port}/`);
    expect((await refusal(without)).message).toMatch(
      /answers as ZooKeeper, not as TLS: it has no TLS, so write zookeeper:\/\//,
    );
  });
});

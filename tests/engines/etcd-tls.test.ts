/** etcd by TLS, with client certificates and users, and with members that end. */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  addUsers,
  describeEtcd,
  type EtcdServer,
  startEtcd,
  startEtcdCluster,
} from "../support/engines/etcd-engine.js";
import { freePort } from "../support/engines/free-port.js";
import { refusal } from "../support/engines/reached-stores.js";
import { checkBuild, leasehold } from "../support/processes/cli.js";
import { compile } from "../support/processes/compile.js";
import { Child, endAll } from "../support/processes/processes.js";
import { type Certificate, newAuthority } from "../support/server/certificates.js";
import { expectNoSecrets, expectWithout, keepingLogger } from "../support/server/secrets.js";

const TTL = { ttlMs: 60_000 };

interface Certificates {
  readonly authority: string;
  readonly server: Certificate;
  readonly client: Certificate;
  /** Of a user of etcd, by its common name. */
  readonly user: Certificate;
  readonly stranger: Certificate;
}

async function makeCertificates(): Promise<Certificates> {
  const [authority, other] = await Promise.all([newAuthority(), newAuthority()]);
  return {
    authority: authority.certificate,
    server: await authority.sign("server", ["127.0.0.1", "localhost"]),
    client: await authority.sign("client"),
    user: await authority.sign("certified"),
    stranger: await other.sign("client"),
  };
}

describe("a URL of etcd with certificates", () => {
  it.each([
    ["etcd://a?cacert=/a", "url: ?cacert is not a parameter of etcd: URLs"],
    ["etcds://a?caert=/a", "did you mean ?cacert="],
    ["etcds://a?cert=/a", "url must name both ?cert= and ?key=, or neither"],
    ["etcds://me:secret@a?cacert=/none/such", "the file /none/such for TLS to etcd: ENOENT"],
  ])("%s is refused", async (url, message) => {
    const refused = await refusal(url);
    expect(["INVALID_OPTION", "STORE_MISCONFIGURED"]).toContain(refused.code);
    expect(refused.message).toContain(message);
    expect(refused.stack).not.toContain("secret");
  });
});

describeEtcd("an etcd that asks for client certificates", () => {
  let server: EtcdServer;
  let certificates: Certificates;
  beforeAll(async () => {
    certificates = await makeCertificates();
    server = await startEtcd({ tls: certificates });
    const password = "se/cret";
    await addUsers(server, {
      apps: { password, prefix: "apps/" },
      certified: { password, prefix: "apps/" },
    });
  }, 60_000);
  afterAll(async () => {
    await server?.remove();
    await endAll();
  });

  const LOGIN = "apps:se%2Fcret@";
  const at = (files: Readonly<Record<string, string>>, login = LOGIN) => {
    const parameters = new URLSearchParams(files);
    return `etcds://${login}127.0.0.1:${server.port}/apps?${parameters}`;
  };
  const filesOf = ({ certificate: cert, key }: Certificate) => ({
    cacert: certificates.authority,
    cert,
    key,
  });
  const client = () => certificates.client;
  /** In a process of its own: after a refused handshake, grpc-js leaves a socket to the end of the process. */
  const refusedFor = async (files: Readonly<Record<string, string>>) => {
    checkBuild();
    return leasehold(["ls"], { env: { LEASEHOLD_STORE: at(files) } });
  };

  it("acquires, waits, is woken, renews and lists, with certificates named by the URL", async () => {
    const url = at(filesOf(client()));
    const [one, other] = [await connect(url), await connect(url)];
    const lease = await one.acquire("report", TTL);
    const waiting = other.acquire("report", TTL);
    await lease.renew();
    await lease.release();
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    expect((await one.list({ prefix: "report" })).items).toMatchObject([
      { resource: "report", state: "live" },
    ]);
    await next.release();
    await Promise.all([one.close(), other.close()]);
  });

  it("takes the certificates themselves as an option", async () => {
    const { certificate, key: own } = client();
    const [ca, cert, key] = await Promise.all(
      [certificates.authority, certificate, own].map((path) => readFile(path, "utf8")),
    );
    const leases = await connect(etcd({ url: at({}), tls: { ca: ca!, cert: cert!, key: key! } }));
    await (await leases.acquire("by option", TTL)).release();
    await leases.close();
  });

  it("is not trusted without its authority", async () => {
    const { cert, key } = filesOf(client());
    expect(await refusal(at({ cert, key }))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        /its certificate is not trusted .*; name the file of its authority by \?cacert=/,
      ),
    });
  });

  it("is reached with its authority in NODE_EXTRA_CA_CERTS", async () => {
    const program = await compile(
      new URL("../support/processes/wait-for-lease.ts", import.meta.url),
    );
    // Where it is set, grpc-js trusts the authorities in this file alone.
    const { GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: _, ...others } = process.env;
    const env = { ...others, NODE_EXTRA_CA_CERTS: certificates.authority };
    const { cert, key } = filesOf(client());
    const child = new Child(process.execPath, [program.path, at({ cert, key }), "trusted"], {
      env,
    });
    await child.until(({ out }) => out.includes("acquired"));
    await child.end("SIGKILL");
    await program.remove();
  });

  it.each([
    ["without a certificate", () => ({ cacert: certificates.authority })],
    ["with a certificate of a stranger", () => filesOf(certificates.stranger)],
  ])("refuses a client %s, and says so", async (_, files) => {
    expect(await refusedFor(files())).toMatchObject({
      code: 78,
      stderr: expect.stringMatching(
        /it asks for a certificate of the client that it trusts .*; name one by \?cert= and \?key=/,
      ),
    });
  });

  it("knows a user by the common name of a certificate", async () => {
    const url = at(filesOf(certificates.user), "");
    const leases = await connect(url);
    await (await leases.acquire("certified", TTL)).release();
    await leases.close();
    const beyond = await refusal(url.replace("/apps?", "/others?"));
    expect(beyond.message).toContain("grant the user's role readwrite below the path of the URL");
  });

  it("shows no secret in errors, in doctor, or in the arguments of processes", async () => {
    const wrong = await refusal(at(filesOf(client()), "apps:mi%2Fstaken@"));
    expect(wrong.message).toContain("check the user and password of the URL");
    expectWithout(wrong.stack, ["mi/staken", "mi%2Fstaken"]);
    const key = (await readFile(client().key, "utf8")).split("\n")[1] ?? "";
    await expectNoSecrets(at(filesOf(client())), ["se/cret", "se%2Fcret", key]);
  });
});

describeEtcd("three members with certificates and users, of which one ends", () => {
  let members: EtcdServer[];
  let certificates: Certificates;
  beforeAll(async () => {
    certificates = await makeCertificates();
    members = await startEtcdCluster(3, { tls: certificates });
    await addUsers(members[0]!, { apps: { password: "se/cret", prefix: "apps/" } });
  }, 60_000);
  afterAll(async () => {
    await Promise.all(members.map((member) => member.remove()));
    await endAll();
  });
  const at = (ports: readonly number[]) => {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
    const { authority: cacert, client } = certificates;
    const files = { cacert, cert: client.certificate, key: client.key };
    return `etcds://apps:se%2Fcret@${hosts}/apps?${new URLSearchParams(files)}`;
  };

  it("is opened behind a member that is down, and loses no lease by the end of another", async () => {
    const { logger, logged } = keepingLogger();
    const [first, second, third] = members as [EtcdServer, EtcdServer, EtcdServer];
    const url = at([await freePort(), first.port, second.port, third.port]);
    const client = await connect(url, { logger });
    const group = await client.acquireAll(["a", "b", "c"], TTL);
    // Calls go to the first one that answers.
    await first.kill9();
    await until(expect, "each is renewed", async () => {
      const renewals = await Promise.allSettled(group.leases.map((lease) => lease.renew()));
      return renewals.every(({ status }) => status === "fulfilled");
    });
    expect(group.checkAlive()).toBe(true);
    for (const { resource, token } of group.leases) {
      expect(await client.get(resource)).toMatchObject({ state: "live", token });
    }
    await group.release();
    await client.close();
    expectWithout(logged.join("\n"), ["se/cret", "se%2Fcret"]);
    await first.start();
  });
});

/** Consul by TLS, with client certificates and ACLs, and with agents that end. */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { consul } from "../../packages/leasehold/src/stores/consul/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  type ConsulServer,
  describeConsul,
  startConsulCluster,
} from "../support/engines/consul-engine.js";
import { freePort } from "../support/engines/free-port.js";
import { refusal, works } from "../support/engines/reached-stores.js";
import { endAll } from "../support/processes/processes.js";
import { type Certificate, newAuthority } from "../support/server/certificates.js";
import { expectNoSecrets, expectWithout, keepingLogger } from "../support/server/secrets.js";

const TTL = { ttlMs: 15_000 };
const TOKEN = "11111111-2222-3333-4444-555555555555";

describe("a URL of Consul with certificates", () => {
  it.each([
    ["consul://a?cacert=/a", "url: ?cacert is not a parameter of consul: URLs"],
    ["consuls://a?caert=/a", "did you mean ?cacert="],
    ["consuls://a?cert=/a", "url must name both ?cert= and ?key=, or neither"],
    ["consuls://a?token=secret&cacert=/none/such", "the file /none/such for TLS to Consul: ENOENT"],
  ])("%s is refused", async (url, message) => {
    const refused = await refusal(url);
    expect(["INVALID_OPTION", "STORE_MISCONFIGURED"]).toContain(refused.code);
    expect(refused.message).toContain(message);
    expect(refused.stack).not.toContain("secret");
  });
});

describeConsul("three servers of Consul that ask for client certificates", () => {
  let servers: ConsulServer[];
  let authority: string;
  let client: Certificate;
  let stranger: Certificate;
  beforeAll(async () => {
    const [own, other] = await Promise.all([newAuthority(), newAuthority()]);
    authority = own.certificate;
    client = await own.sign("client");
    stranger = await other.sign("client");
    const tokens = { master: TOKEN, agent: TOKEN };
    servers = await startConsulCluster(3, {
      config: { acl: { enabled: true, default_policy: "deny", tokens } },
      token: TOKEN,
      tls: { authority, server: await own.sign("server", ["127.0.0.1", "localhost"]) },
    });
  }, 60_000);
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.remove()));
    await endAll();
  });

  const at = (
    files: Readonly<Record<string, string>>,
    ports = servers.map(({ securePort }) => securePort),
  ) => {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
    return `consuls://${hosts}/locks?${new URLSearchParams({ token: TOKEN, ...files })}`;
  };
  const filesOf = ({ certificate: cert, key }: Certificate) => ({ cacert: authority, cert, key });

  it("acquires, waits, is woken, renews and lists, with certificates named by the URL", async () => {
    const url = at(filesOf(client));
    await works(url, TTL.ttlMs);
  });

  it("takes the certificates themselves as an option", async () => {
    const [ca, cert, key] = await Promise.all(
      [authority, client.certificate, client.key].map((path) => readFile(path, "utf8")),
    );
    const leases = await connect(consul({ url: at({}), tls: { ca: ca!, cert: cert!, key: key! } }));
    await (await leases.acquire("by option", TTL)).release();
    await leases.close();
  });

  it("is not trusted without its authority", async () => {
    const { certificate: cert, key } = client;
    expect(await refusal(at({ cert, key }))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        /its certificate is not trusted .*; name the file of its authority by \?cacert=/,
      ),
    });
  });

  it.each([
    ["without a certificate", () => ({ cacert: authority })],
    ["with a certificate of a stranger", () => filesOf(stranger)],
  ])("refuses a client %s, and says so", async (_, files) => {
    expect(await refusal(at(files()))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        /it asks for a certificate of the client that it trusts .*; name one by \?cert= and \?key=/,
      ),
    });
  });

  it("is opened behind an agent that is down, and loses no lease by the end of another", async () => {
    const { logger, logged } = keepingLogger();
    const ports = [await freePort(), ...servers.map(({ securePort }) => securePort)];
    const holder = await connect(at(filesOf(client), ports), { logger });
    const group = await holder.acquireAll(["a", "b", "c"], TTL);
    // Calls go to the first one that answers.
    await servers[0]?.kill9();
    await until(expect, "each is renewed", async () => {
      const renewals = await Promise.allSettled(group.leases.map((lease) => lease.renew()));
      return renewals.every(({ status }) => status === "fulfilled");
    });
    expect(group.checkAlive()).toBe(true);
    for (const { resource, token } of group.leases) {
      expect(await holder.get(resource)).toMatchObject({ state: "live", token });
    }
    await group.release();
    await holder.close();
    expectWithout(logged.join("\n"), [TOKEN]);
    await servers[0]?.start();
  });

  it("shows no secret in errors, in doctor, or in the arguments of processes", async () => {
    const mistaken = "99999999-2222-3333-4444-555555555555";
    const wrong = await refusal(at({ ...filesOf(client), token: mistaken }));
    expect(wrong.message).toContain("check ?token= of the URL");
    expectWithout(wrong.stack, [mistaken]);
    const key = (await readFile(client.key, "utf8")).split("\n")[1] ?? "";
    await expectNoSecrets(at(filesOf(client)), [TOKEN, key]);
  });
});

/** How etcd is reached: URLs, users and rights, and what is said where something is wrong with them. */
import { createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { describeEtcd, type EtcdServer, startEtcd } from "../support/engines/etcd-engine.js";
import { freePort } from "../support/engines/free-port.js";
import { endAll } from "../support/processes/processes.js";

async function refusal(url: string, timeoutMs = 1_000): Promise<{ code: string; message: string }> {
  try {
    const stores = await etcd({ url }).open(systemEnv, timeoutMs);
    await stores.close();
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return { code, message };
  }
  throw new Error("it was opened");
}

describe("a URL of etcd", () => {
  it.each([
    ["etcd://", "url must be like etcd://host:2379,host2:2379/path"],
    [
      "etcd://a:x",
      "url must name hosts like host:2379, separated by commas, with ports from 1 to 65535",
    ],
    [
      "etcd://a,,b",
      "url must name hosts like host:2379, separated by commas, with ports from 1 to 65535",
    ],
    ["etcd://alice@a", "url must name a user as user:password@"],
    [
      "etcd://a?ttl=3",
      "url: ?ttl is not a parameter of etcd: URLs (known are ?tls); did you mean ?tls=",
    ],
    ["etcd://a?tls=maybe", 'url: ?tls must be "true" or "false"'],
    ["etcd://a/%zz", "url must have its user and path percent-encoded"],
  ])("%s is refused", (url, message) => {
    expect(() => etcd({ url })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message }),
    );
  });
});

it("distinguishes a server that is not etcd from an etcd server that is down", async () => {
  const other = createServer((_, response) => response.writeHead(404).end("nothing here"));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const address = other.address();
  const port = typeof address === "object" ? address?.port : undefined;
  const found = await refusal(`etcd://127.0.0.1:${port}`);
  expect(found.code).toBe("STORE_MISCONFIGURED");
  expect(found.message).toContain("is this the client URL of an etcd 3.4 or later");
  await new Promise((resolve) => other.close(resolve));

  const down = await refusal(`etcd://127.0.0.1:${await freePort()}`);
  expect(down.code).toBe("STORE_UNAVAILABLE");
  expect(down.message).toContain("ECONNREFUSED");
});

describeEtcd("an etcd", () => {
  let server: EtcdServer;
  beforeAll(async () => {
    server = await startEtcd();
  }, 30_000);
  afterAll(async () => {
    await server.remove();
    await endAll();
  });
  const at = (login: string, path = "") => `etcd://${login}127.0.0.1:${server.port}${path}`;

  it("is found behind a member that is down", async () => {
    const hosts = `127.0.0.1:${await freePort()},127.0.0.1:${server.port}`;
    const leases = await connect(`etcd://${hosts}/found`);
    const lease = await leases.acquire("r");
    await lease.release();
    await leases.close();
  });

  it("without TLS is not reached by TLS", async () => {
    const { code } = await refusal(`etcds://127.0.0.1:${server.port}`);
    expect(["STORE_UNAVAILABLE", "STORE_MISCONFIGURED"]).toContain(code);
  });

  // The last one: it changes the server for good.
  it("with users names the remedy of what is wrong with ours", async () => {
    expect(await refusal(at("alice:secret@"))).toEqual({
      code: "STORE_MISCONFIGURED",
      message:
        "etcd says: etcdserver: authentication is not enabled; remove user and password from the URL, or enable auth",
    });
    for (const command of [
      ["user", "add", "root:toor"],
      ["user", "grant-role", "root", "root"],
      ["role", "add", "apps"],
      ["role", "grant-permission", "apps", "--prefix=true", "readwrite", "apps/"],
      ["user", "add", "alice:se/cret@1"],
      ["user", "grant-role", "alice", "apps"],
      ["auth", "enable"],
    ]) {
      await server.ask(...command);
    }
    expect(await refusal(at(""))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("put user:password@ into the URL") as string,
    });
    const wrong = await refusal(at("alice:secret@"));
    expect(wrong).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("check the user and password of the URL") as string,
    });
    expect(wrong.message).not.toContain("secret");
    const login = `alice:${encodeURIComponent("se/cret@1")}@`;
    expect(await refusal(at(login))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining(
        "grant the user's role readwrite below the path of the URL",
      ) as string,
    });
    const leases = await connect(at(login, "/apps"));
    const lease = await leases.acquire("r", { ttlMs: 60_000 });
    // Tokens that the server has forgotten are fetched anew.
    await server.kill9();
    await server.start();
    await lease.renew();
    const watched = new AbortController();
    for await (const event of leases.watch({ signal: watched.signal })) {
      expect(event).toEqual({ type: "resync" });
      break;
    }
    await lease.release();
    expect(await leases.get("r")).toMatchObject({ state: "released", token: lease.token });
    await leases.close();
  });
});

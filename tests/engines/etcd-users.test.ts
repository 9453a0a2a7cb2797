/** Users of etcd: the rights that they need, and what happens when their tokens expire. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import {
  addUsers,
  describeEtcd,
  type EtcdServer,
  startEtcd,
} from "../support/engines/etcd-engine.js";
import { works } from "../support/engines/reached-stores.js";
import { requestOf } from "../support/faults/queue-site.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";
import { expectNoSecrets } from "../support/server/secrets.js";

const TTL = { ttlMs: 60_000 };
const PASSWORD = "se/cret";

const urlOf = (server: EtcdServer, path = "/apps") =>
  `etcd://apps:${encodeURIComponent(PASSWORD)}@127.0.0.1:${server.port}${path}`;

describeEtcd("a user of etcd with the rights of the README", () => {
  let server: EtcdServer;
  beforeAll(async () => {
    server = await startEtcd();
    await addUsers(server, { apps: { password: PASSWORD, prefix: "apps/" } });
  }, 30_000);
  afterAll(async () => {
    await server?.remove();
    await endAll();
  });

  it("acquires, waits, is woken, renews, revokes, lists and collects", async () => {
    for (const namespace of ["default", "other"]) {
      await works(urlOf(server), TTL.ttlMs, { namespace });
    }
    const { leases, close } = await etcd({ url: urlOf(server) }).open(systemEnv);
    const asked = requestOf("revoked");
    expect(await leases.acquire([asked])).toMatchObject([{ status: "acquired" }]);
    expect(await leases.revoke([{ ...asked, free: "now" }])).toMatchObject([{ status: "revoked" }]);
    expect(await leases.collect(0)).toBeGreaterThan(0);
    await close();
  });

  it("reads nothing beyond the path", async () => {
    await expect(connect(urlOf(server, "/others"))).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("grant the user's role readwrite below the path of the URL"),
    });
  });

  it("doctor shows the state of the cluster, and no password", async () => {
    const stores = await etcd({ url: urlOf(server) }).open(systemEnv);
    expect((await stores.diagnose?.())?.map(({ what }) => what)).toEqual([
      "version",
      "alarms",
      "dbSize",
      "compaction",
    ]);
    await stores.close();
    await expectNoSecrets(urlOf(server), [PASSWORD, encodeURIComponent(PASSWORD)]);
  });
});

describeEtcd("tokens of etcd that expire after a second", () => {
  let server: EtcdServer;
  beforeAll(async () => {
    const folder = await temporaryFolder();
    const [key, publicKey] = [join(folder, "key"), join(folder, "public")];
    const openssl = (...args: string[]) => promisify(execFile)("openssl", args);
    await openssl("genrsa", "-out", key, "2048");
    await openssl("rsa", "-in", key, "-pubout", "-out", publicKey);
    const jwt = `jwt,pub-key=${publicKey},priv-key=${key},sign-method=RS256,ttl=1s`;
    server = await startEtcd({ settings: [`--auth-token=${jwt}`] });
    await addUsers(server, { apps: { password: PASSWORD, prefix: "apps/" } });
  }, 30_000);
  afterAll(async () => {
    await server?.remove();
    await endAll();
  });

  const ask = async (path: string, body: object, token?: string) => {
    const answer = await fetch(`http://127.0.0.1:${server.port}/v3/${path}`, {
      method: "POST",
      ...(token !== undefined && { headers: { authorization: token } }),
      body: JSON.stringify(body),
    });
    return { status: answer.status, ...((await answer.json()) as { token?: string }) };
  };
  /** Resolves when all tokens that there are by now have expired. */
  const tokensExpire = async () => {
    const { token = "" } = await ask("auth/authenticate", { name: "apps", password: PASSWORD });
    const key = Buffer.from("apps/x").toString("base64");
    while ((await ask("kv/range", { key }, token)).status === 200) await delay(50);
  };

  it("are renewed, and the leases stay", async () => {
    const client = await connect(urlOf(server));
    const lease = await client.acquire("kept", TTL);
    for (let round = 0; round < 3; round += 1) {
      await tokensExpire();
      await lease.renew();
    }
    await tokensExpire();
    expect(await client.get("kept")).toMatchObject({ state: "live", token: lease.token });
    await tokensExpire();
    await lease.release();
    await client.close();
  });

  it("are renewed for a watch, which etcd denies under an old one", async () => {
    const { leases, close } = await etcd({ url: urlOf(server) }).open(systemEnv);
    const { signal } = new AbortController();
    for (const namespaces of [["one", "two"], ["three"]]) {
      await tokensExpire();
      const watches = namespaces.map(async (namespace) => {
        for await (const event of leases.watch(namespace, { signal })) return event;
        return undefined;
      });
      expect(await Promise.all(watches)).toEqual(namespaces.map(() => ({ type: "resync" })));
    }
    await close();
  });
});

/** Errors about unusable servers, and behaviour on a real one. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { CuratorClient } from "../../../../../tests/support/engines/curator-client.js";
import { freePort } from "../../../../../tests/support/engines/free-port.js";
import {
  describeZooKeeper,
  startZooKeeper,
  type ZooKeeperServer,
} from "../../../../../tests/support/engines/zookeeper-engine.js";
import { compile } from "../../../../../tests/support/processes/compile.js";
import { Child, endAll } from "../../../../../tests/support/processes/processes.js";
import { newLeaseId, systemEnv, systemRandom } from "../../env/index.js";
import { connect } from "../../index.js";
import { only } from "../../testing/calls.js";
import { Link } from "./connection.js";
import { loadZooKeeper } from "./connection-driver.js";
import { zookeeper } from "./index.js";
import { Paths } from "./keys.js";
import { Talk } from "./transactions.js";

const closing: (() => Promise<unknown>)[] = [];
function later<T extends { close(): Promise<unknown> }>(opened: T): T {
  closing.unshift(() => opened.close());
  return opened;
}
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

describe("a server that is not ZooKeeper", () => {
  it("is said to be unreachable, with the reason", async () => {
    const port = await freePort();
    await expect(
      zookeeper({ url: `zookeeper://127.0.0.1:${port}` }).open(systemEnv, 300),
    ).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/no connection: .*ECONNREFUSED/),
    });
  });

  it("is said to be another server", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    closing.unshift(async () => {
      other.closeAllConnections();
      other.close();
    });
    await new Promise((resolve) => other.once("listening", resolve));
    const { port } = other.address() as AddressInfo;
    await expect(
      zookeeper({ url: `zookeeper://127.0.0.1:${port}` }).open(systemEnv, 10_000),
    ).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: "the server is not a ZooKeeper server: correct host and port in the URL",
    });
  });

  it("is a driver that cannot be loaded", async () => {
    vi.doMock("node-zookeeper-client", () => {
      throw new Error("its build is broken");
    });
    try {
      await expect(
        zookeeper({ url: "zookeeper://127.0.0.1" }).open(systemEnv),
      ).rejects.toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(
          /^the package node-zookeeper-client is installed but cannot be loaded: /,
        ),
      });
    } finally {
      vi.doUnmock("node-zookeeper-client");
    }
  });
});

describeZooKeeper("a server of ZooKeeper's", () => {
  let server: ZooKeeperServer;
  beforeAll(async () => {
    server = await startZooKeeper();
  });
  afterAll(() => endAll());
  const requestOf = (resource: string) => ({
    namespace: "default",
    resource,
    leaseId: newLeaseId(systemRandom),
    holder: "h",
    ttlMs: 5_000,
  });

  it("protects a user's znodes from other users, and says so", async () => {
    const at = `127.0.0.1:${server.port}/private`;
    const own = later(await zookeeper({ url: `zookeeper://me:secret@${at}` }).open(systemEnv));
    const request = requestOf("r");
    expect(only(await own.leases.acquire([request]))).toMatchObject({ status: "acquired" });
    for (const url of [`zookeeper://${at}`, `zookeeper://me:wrong@${at}`]) {
      await expect(zookeeper({ url }).open(systemEnv)).rejects.toMatchObject({
        code: "STORE_MISCONFIGURED",
        retryable: false,
        message: expect.stringMatching(/^ZooKeeper reported: NO_AUTH; use the user and password/),
      });
    }
    const same = later(await zookeeper({ url: `zookeeper://me:secret@${at}` }).open(systemEnv));
    expect(only(await same.leases.acquire([requestOf("r")]))).toMatchObject({ status: "held" });
  });

  it("with longer sessions than requested is rejected", async () => {
    const slow = await startZooKeeper({ minSessionTimeout: 4_000 });
    const servers = [`127.0.0.1:${slow.port}`];
    await expect(
      zookeeper({ servers, sessionTimeoutMs: 3_000 }).open(systemEnv),
    ).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("sessions shorter than 4000 ms"),
    });
    const opened = await zookeeper({ servers, sessionTimeoutMs: 4_000 }).open(systemEnv);
    expect(opened.leases.capabilities.ttl).toEqual({ minMs: 1, maxMs: 3_000, stepMs: 1 });
    await opened.close();
    await slow.remove();
  });

  it("grants the longest lease by default if it does not allow 30 s", async () => {
    const url = `zookeeper://127.0.0.1:${server.port}/short?sessionTimeoutMs=8000`;
    const leases = later(await connect(url, { graceMs: 0 }));
    const lease = await leases.acquire("r");
    expect(lease.remainingMs()).toBeLessThanOrEqual(6_000);
    await expect(leases.acquire("other", { ttlMs: 6_001 })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "ttlMs",
    });
  });

  it("receives version 0 as such, although the driver treats it as any", async () => {
    const driver = await loadZooKeeper();
    const options = { server: `127.0.0.1:${server.port}`, identity: null, auth: undefined };
    const link = later(
      await Link.open(driver, { ...options, sessionTimeoutMs: 5_000, withinMs: 5_000 }, systemEnv),
    );
    const deadlineMs = systemEnv.clock.monotonic() + 10_000;
    const talk = new Talk(link, deadlineMs, new Paths(""), driver.ACL.OPEN_ACL_UNSAFE);
    const data = Buffer.from("x");
    await talk.commit([{ create: "/versions", data }]);
    const write = () => talk.commit([{ set: "/versions", data, version: 0 }]);
    await write();
    await expect(write()).rejects.toMatchObject({ message: "BAD_VERSION" });
  });

  it("is empty after everything is collected", async () => {
    const url = `zookeeper://127.0.0.1:${server.port}/collected`;
    const { leases } = later(await zookeeper({ url }).open(systemEnv));
    const requests = ["default", "a", "b/c"].map((namespace) => ({ ...requestOf("r"), namespace }));
    await leases.acquire(requests);
    expect(await leases.collect(0)).toBe(0);
    await leases.release(requests);
    let collected = 0;
    await expect
      .poll(async () => {
        collected += await leases.collect(0);
        return collected;
      })
      .toBe(3);
    const curator = later(await CuratorClient.connect(`127.0.0.1:${server.port}`));
    expect((await curator.children("/collected")).sort()).toEqual(["%ns", "%sync"]);
    expect(await curator.children("/collected/%ns")).toEqual([]);
    // It is created again when it is needed.
    for (const outcome of await leases.acquire(
      requests.map((r) => ({ ...r, leaseId: newLeaseId(systemRandom) })),
    )) {
      expect(outcome.status).toBe("acquired");
    }
  });

  it("keeps no process alive that has nothing else to do, whether it can be reached or not", async () => {
    const source = new URL(
      "../../../../../tests/support/processes/connect-and-idle.ts",
      import.meta.url,
    );
    const program = await compile(source);
    const other = await startZooKeeper();
    for (const reachable of [true, false]) {
      const child = new Child(process.execPath, [program.path, `${other.url}/idle`]);
      await child.until(({ out }) => out.includes("ready"));
      if (!reachable) await other.kill9();
      child.say("go on");
      expect(await child.ended).toMatchObject({ code: 0, stderr: "" });
    }
    await program.remove();
  });

  it("never shows a lease id", async () => {
    const url = `zookeeper://127.0.0.1:${server.port}/secrets`;
    const { leases } = later(await zookeeper({ url }).open(systemEnv));
    const request = requestOf("r");
    await leases.acquire([request]);
    const curator = later(await CuratorClient.connect(`127.0.0.1:${server.port}`));
    const [node] = await curator.children("/secrets/r");
    const texts = [
      node,
      await curator.data("/secrets/r"),
      await curator.data(`/secrets/r/${node}`),
    ];
    expect(texts.join()).toContain('"holder":"h"');
    expect(texts.join()).not.toContain(request.leaseId);
  });
});

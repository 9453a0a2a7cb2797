/** A server of ZooKeeper that has lost its leader and serves reads alone, and whose address leads to another one. */
import { afterAll, expect, it, onTestFinished } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describeZooKeeper,
  startEnsemble,
  startZooKeeper,
} from "../support/engines/zookeeper-engine.js";
import { requestOf } from "../support/faults/queue-site.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { endAll } from "../support/processes/processes.js";

describeZooKeeper("ZooKeeper whose server becomes one of reads alone", () => {
  afterAll(() => endAll());

  it("grants nothing there, and is followed to the next server at its address", async () => {
    const [[old, ...others], next] = await Promise.all([
      startEnsemble(3, undefined, ["readonlymode.enabled=true"]),
      startZooKeeper(),
    ]);
    if (!old) throw new Error("an ensemble has a server");
    for (const server of [old, ...others, next]) onTestFinished(() => server.remove());
    const proxy = await openTcpProxy({ port: old.port });
    onTestFinished(() => proxy.close());
    const url = `zookeeper://127.0.0.1:${proxy.port}`;
    const { leases, close } = await zookeeper({ url }).open(systemEnv);
    onTestFinished(close);
    expect(await leases.acquire([requestOf("kept")])).toMatchObject([{ status: "acquired" }]);
    await Promise.all(others.map((server) => server.kill9()));
    await until(expect, "it serves reads", async () => (await old.mode()) === "read-only");
    const [refused] = await leases.acquire([requestOf("r")]);
    expect(refused).toMatchObject({ status: "failed", retryable: true });
    proxy.redirect(next.port);
    await until(expect, "the next one grants", async () => {
      const [outcome] = await leases.acquire([requestOf("r")]);
      return outcome?.status === "acquired";
    });
  });
});

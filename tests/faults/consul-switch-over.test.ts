/** An agent of Consul that has lost its leader while its connections stay open, and whose address leads to another one. */
import { afterAll, expect, it, onTestFinished } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { consul } from "../../packages/leasehold/src/stores/consul/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describeConsul,
  startConsul,
  startConsulCluster,
} from "../support/engines/consul-engine.js";
import { requestOf } from "../support/faults/queue-site.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { endAll } from "../support/processes/processes.js";

describeConsul("Consul whose agent loses its leader while its connections stay open", () => {
  afterAll(() => endAll());

  it("is followed to the next agent at its address", async () => {
    const [[old, ...others], next] = await Promise.all([
      startConsulCluster(3, { config: { performance: { rpc_hold_timeout: "50ms" } } }),
      startConsul(),
    ]);
    if (!old) throw new Error("a cluster has an agent");
    for (const server of [old, ...others, next]) onTestFinished(() => server.remove());
    const proxy = await openTcpProxy({ port: old.port });
    onTestFinished(() => proxy.close());
    const { leases, close } = await consul({ url: `consul://127.0.0.1:${proxy.port}` }).open(
      systemEnv,
    );
    onTestFinished(close);
    const kept = requestOf("kept");
    expect(await leases.acquire([kept])).toMatchObject([{ status: "acquired" }]);
    await Promise.all(others.map((server) => server.kill9()));
    const refusal = async () => {
      const [outcome] = await leases.acquire([requestOf("r")]);
      return outcome?.status === "failed" && /No cluster leader/.test(outcome.error.message);
    };
    await until(expect, "there is no leader", refusal);
    proxy.redirect(next.port);
    expect(await leases.acquire([requestOf("r")])).toMatchObject([{ status: "acquired" }]);
  });
});

/** A member of etcd that has lost its leader while its connections stay open, and whose address leads to another one. */
import { afterAll, expect, it, onTestFinished } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  addUsers,
  describeEtcd,
  startEtcd,
  startEtcdCluster,
} from "../support/engines/etcd-engine.js";
import { requestOf } from "../support/faults/queue-site.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { endAll } from "../support/processes/processes.js";

describeEtcd("etcd whose member cannot serve while its connections stay open", () => {
  afterAll(() => endAll());

  it.each(["", "apps:secret@"])(
    "is followed to the next member at its address, as %j",
    async (user) => {
      const [[old, ...others], next] = await Promise.all([startEtcdCluster(3), startEtcd()]);
      if (!old) throw new Error("a cluster has a member");
      for (const server of [old, ...others, next]) onTestFinished(() => server.remove());
      if (user) {
        // Each knows the tokens that it has given alone.
        const users = { apps: { password: "secret", prefix: "apps/" } };
        await Promise.all([addUsers(old, users), addUsers(next, users)]);
      }
      const proxy = await openTcpProxy({ port: old.port });
      onTestFinished(() => proxy.close());
      const url = `etcd://${user}127.0.0.1:${proxy.port}/apps`;
      const { leases, close } = await etcd({ url }).open(systemEnv);
      onTestFinished(close);
      expect(await leases.acquire([requestOf("kept")])).toMatchObject([{ status: "acquired" }]);
      await Promise.all(others.map((server) => server.kill9()));
      const isRefused = async () => {
        const [outcome] = await leases.acquire([requestOf("r")]);
        return outcome?.status === "failed";
      };
      await until(expect, "the member is without a leader", isRefused);
      proxy.redirect(next.port);
      const isAcquired = async () => {
        const [outcome] = await leases.acquire([requestOf("r")]);
        return outcome?.status === "acquired";
      };
      await until(expect, "the next member serves", isAcquired);
    },
  );
});

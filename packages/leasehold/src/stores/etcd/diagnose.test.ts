/** What is read of a cluster by a user whose rights end at a path. */
import { expect, it } from "vitest";
import { scripted } from "../../../../../tests/support/worlds/etcd-transport.js";
import { manualEnv } from "../../testing/index.js";
import { EtcdClient } from "./connection.js";
import type { RequestOf } from "./connection-api.js";
import { diagnoseEtcd } from "./diagnose.js";
import { saidFailure } from "./failures.js";

it("asks below the path whether old revisions are there", async () => {
  const transport = scripted(async (_endpoint, method, body) => {
    if (method === "Status") {
      return { version: "3.4.23", dbSize: "1", header: { revision: "100000" } };
    }
    if (method === "Alarm") return {};
    const isBelow = (body as RequestOf<"Range">).key.startsWith("apps/");
    throw saidFailure(
      isBelow
        ? "etcdserver: mvcc: required revision has been compacted"
        : "etcdserver: permission denied",
    );
  });
  const client = new EtcdClient({
    endpoints: ["http://etcd:2379"],
    user: null,
    transport,
    env: manualEnv(),
  });
  expect(await diagnoseEtcd(client, "apps/")).toContainEqual(
    expect.objectContaining({ what: "compaction", verdict: "fine" }),
  );
});

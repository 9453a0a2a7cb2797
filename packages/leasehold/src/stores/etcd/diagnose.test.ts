/** What is read of a cluster by a user whose rights end at a path. */
import { expect, it } from "vitest";
import { fromBase64 } from "../../env/base64.js";
import { manualEnv } from "../../testing/index.js";
import { EtcdClient } from "./connection.js";
import { diagnoseEtcd } from "./diagnose.js";
import { JsonTransport } from "./json-transport.js";

it("asks below the path whether old revisions are there", async () => {
  const fetch = async (url: unknown, init?: RequestInit): Promise<Response> => {
    const { pathname } = new URL(String(url));
    if (pathname.endsWith("/status")) {
      return Response.json({ version: "3.4.23", dbSize: "1", header: { revision: "100000" } });
    }
    if (pathname.endsWith("/alarm")) return Response.json({});
    const { key } = JSON.parse(String(init?.body)) as { key: string };
    const isBelow = fromBase64(key).startsWith("apps/");
    const message = isBelow
      ? "etcdserver: mvcc: required revision has been compacted"
      : "etcdserver: permission denied";
    return Response.json({ message }, { status: 400 });
  };
  const client = new EtcdClient({
    endpoints: ["http://etcd:2379"],
    user: null,
    transport: new JsonTransport(fetch),
    env: manualEnv(),
  });
  expect(await diagnoseEtcd(client, "apps/")).toContainEqual(
    expect.objectContaining({ what: "compaction", verdict: "fine" }),
  );
});

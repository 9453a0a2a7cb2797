/** Many records that are as large as they can be: etcd refuses requests above 1.5 MiB. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { describeEtcd, type EtcdServer, startEtcd } from "../support/engines/etcd-engine.js";
import { Opened, requestOf } from "../support/faults/queue-site.js";
import { endAll } from "../support/processes/processes.js";

describeEtcd("metadata of control characters on etcd", () => {
  let server: EtcdServer;
  const opened = new Opened();
  beforeAll(async () => {
    server = await startEtcd();
  }, 30_000);
  afterAll(async () => {
    await opened.closeAll();
    await server.remove();
    await endAll();
  });

  it("is written and renewed in transactions that etcd takes", async () => {
    const { leases } = opened.later(await etcd({ url: server.url }).open(systemEnv, 20_000));
    const metadata = "\u0001".repeat(4_096);
    const requests = Array.from({ length: 230 }, (_, at) =>
      requestOf(`large/${at}`, { holder: "h", metadata }),
    );
    const options = { timeoutMs: 30_000 };
    const acquired = await leases.acquire(requests, options);
    expect(new Set(acquired.map(({ status }) => status))).toEqual(new Set(["acquired"]));
    const renewed = await leases.renew(requests, options);
    expect(new Set(renewed.map(({ status }) => status))).toEqual(new Set(["renewed"]));
  }, 90_000);
});

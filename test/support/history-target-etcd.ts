/** etcd as histories are made on it: reached through the fault proxy, each store by some of the clients. */
import { systemEnv } from "../../src/env/index.js";
import { etcd } from "../../src/stores/etcd/index.js";
import { startEtcd } from "./etcd-engine.js";
import { disturb, faultsOf, type HistoryTarget } from "./history-targets.js";
import { openTcpProxy } from "./tcp-proxy.js";

/** @param port of a server */
function etcdTarget(port: number): HistoryTarget {
  const open = (at: number) => etcd({ url: `etcd://127.0.0.1:${at}` }).open(systemEnv, 30_000);
  return {
    name: "etcd",
    // Renewals and releases are.
    repeats: true,
    // Engine leases outlive what is said of them by a second, and what is over is looked for twice a second.
    lateMs: 2_500,
    size: { clients: 6, requests: 50 },
    ttl: { minMs: 1_000, stepMs: 1_000 },
    shortestTtlMs: 1_000,
    async open(clients, random) {
      const direct = await open(port);
      const proxy = await openTcpProxy({ port, random });
      const opened = await Promise.all(
        Array.from({ length: 3 + Math.floor(random.float() * 3) }, () => open(proxy.port)),
      );
      return {
        stores: Array.from({ length: clients }, (_, at) => opened[at % opened.length]!.leases),
        direct: direct.leases,
        disturb: (stopped) => disturb(proxy, random, stopped),
        faults: () => faultsOf(proxy.counts),
        async close() {
          await Promise.all([direct, ...opened].map((stores) => stores.close()));
          await proxy.close();
        },
      };
    },
  };
}

/** With a server of its own. */
export async function onEtcd<T>(work: (target: HistoryTarget) => Promise<T>): Promise<T> {
  const server = await startEtcd();
  try {
    return await work(etcdTarget(server.port));
  } finally {
    await server.remove();
  }
}

/** ZooKeeper as histories are made on it: reached through the fault proxy, each session by some of the clients. */
import { systemEnv } from "../../src/env/index.js";
import { zookeeper } from "../../src/stores/zookeeper/index.js";
import { disturb, faultsOf, type HistoryTarget } from "./history-targets.js";
import { openTcpProxy } from "./tcp-proxy.js";
import { startZooKeeper } from "./zookeeper-engine.js";

const SESSION_MS = 4_000;

/** @param port of a server */
function zookeeperTarget(port: number): HistoryTarget {
  const open = (at: number) =>
    zookeeper({
      ...{ servers: [`127.0.0.1:${at}`], chroot: "/histories", sessionTimeoutMs: SESSION_MS },
    }).open(systemEnv, 30_000);
  return {
    name: "zookeeper",
    // Until it is known whether the first time took effect.
    repeats: true,
    // A client ends its grants by itself, which may have to wait for a connection, or its session's end.
    lateMs: 3_000,
    size: { clients: 6, requests: 120 },
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
export async function onZooKeeper<T>(work: (target: HistoryTarget) => Promise<T>): Promise<T> {
  const server = await startZooKeeper();
  try {
    return await work(zookeeperTarget(server.port));
  } finally {
    await server.remove();
  }
}

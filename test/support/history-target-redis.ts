/** Redis as histories are made on it: reached through the fault proxy, each store by some of the clients. */
import { systemEnv } from "../../src/env/index.js";
import { redis } from "../../src/stores/redis/index.js";
import { disturb, faultsOf, type HistoryTarget } from "./history-targets.js";
import { startRedis } from "./redis-engine.js";
import { openTcpProxy } from "./tcp-proxy.js";

/** @param port of a server */
function redisTarget(port: number): HistoryTarget {
  const open = (at: number) => redis({ url: `redis://127.0.0.1:${at}` }).open(systemEnv, 30_000);
  return {
    name: "redis",
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
export async function onRedis<T>(work: (target: HistoryTarget) => Promise<T>): Promise<T> {
  const server = await startRedis();
  try {
    return await work(redisTarget(server.port));
  } finally {
    await server.remove();
  }
}

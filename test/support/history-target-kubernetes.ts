/** Kubernetes, reached through the fault proxy by several stores, each used by some of the clients. */
import { systemEnv } from "../../src/env/index.js";
import { kubernetes } from "../../src/stores/kubernetes/index.js";
import { disturb, faultsOf, type HistoryTarget } from "./history-targets.js";
import { type KubernetesEngine, startKubernetes } from "./kubernetes-engine.js";
import { openTcpProxy } from "./tcp-proxy.js";

function kubernetesTarget(engine: KubernetesEngine): HistoryTarget {
  const open = (url: string) => kubernetes({ url }).open(systemEnv, 30_000);
  return {
    name: "kubernetes",
    ttl: { minMs: 2_000, stepMs: 1_000 },
    // Each contender counts from when it has seen the record: nobody can say by when it is free.
    lateMs: Number.POSITIVE_INFINITY,
    shortestTtlMs: 2_000,
    async open(clients, random) {
      const direct = await open(engine.url);
      const proxy = await openTcpProxy({ port: engine.port, random });
      const url = await engine.through(proxy.port);
      const stores = await Promise.all(
        Array.from({ length: 3 + Math.floor(random.float() * 3) }, () => open(url)),
      );
      return {
        stores: Array.from({ length: clients }, (_, at) => stores[at % stores.length]!.leases),
        direct: direct.leases,
        disturb: (stopped) => disturb(proxy, random, stopped),
        faults: () => faultsOf(proxy.counts),
        async close() {
          await Promise.all([direct, ...stores].map((each) => each.close()));
          await proxy.close();
        },
      };
    },
  };
}

/** With the API server that the tests talk to. */
export async function onKubernetes<T>(work: (target: HistoryTarget) => Promise<T>): Promise<T> {
  const engine = await startKubernetes();
  try {
    return await work(kubernetesTarget(engine));
  } finally {
    await engine.close();
  }
}

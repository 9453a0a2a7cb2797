/** Three servers of Consul, whose leader is killed for good or stopped for a while. */
import { setTimeout as delay } from "node:timers/promises";
import {
  type ConsulServer,
  startConsulCluster,
} from "../../../tests/support/engines/consul-engine.js";
import { openTcpProxy } from "../../../tests/support/faults/tcp-proxy.js";
import type { Cluster } from "./leader-loss.js";

const POLL_MS = 100;
/** Longer than two TTLs of the shortest session, and than it takes to remove a server. */
const STOPPED_MS = 45_000;

export async function consulCluster(fate: "killed" | "stopped"): Promise<Cluster> {
  const servers = await startConsulCluster(3);
  const leader = await leaderOf(servers);
  const others = servers.filter((one) => one !== leader);
  // Clients begin with the first one.
  const ports = [leader, ...others].map(({ port }) => port);
  const proxies = await Promise.all(ports.map((port) => openTcpProxy({ port })));
  const urlOf = (ports: readonly number[], sessionTtlMs: number) => {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
    return `consul://${hosts}/scenario?sessionTtlMs=${sessionTtlMs}`;
  };
  return {
    url: (sessionTtlMs) => urlOf(ports, sessionTtlMs),
    frailUrl: (sessionTtlMs) =>
      urlOf(
        proxies.map(({ port }) => port),
        sessionTtlMs,
      ),
    cutOff() {
      for (const proxy of proxies) {
        proxy.blackhole("toServer");
        proxy.blackhole("toClient");
      }
    },
    async loseLeader(say) {
      const { process } = leader;
      const backAt = performance.now() + STOPPED_MS;
      if (fate === "killed") await leader.kill9();
      else await process?.stop();
      await leaderOf(others);
      say("another server leads");
      while (await isInCatalog(leader, others)) await delay(POLL_MS);
      say("the cluster has removed the former leader");
      if (fate === "killed") return;
      await delay(Math.max(0, backAt - performance.now()));
      process?.cont();
      while (!(await isInCatalog(leader, others))) await delay(POLL_MS);
      say("it is back");
    },
    async close() {
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await Promise.all(servers.map((server) => server.remove()));
    },
  };
}

async function leaderOf(servers: readonly ConsulServer[]): Promise<ConsulServer> {
  for (;;) {
    for (const server of servers) if (await server.isLeader()) return server;
    await delay(POLL_MS);
  }
}

/** As any of the others says; true while they do not answer. */
async function isInCatalog(
  { name }: ConsulServer,
  others: readonly ConsulServer[],
): Promise<boolean> {
  for (const other of others) {
    const nodes = await other.api("GET", "catalog/nodes").catch(() => null);
    if (nodes)
      return (nodes as readonly { readonly Node: string }[]).some((one) => one.Node === name);
  }
  return true;
}

/** A Redis primary and its replica, which is promoted; clients reach them through one address, or ask Sentinels. */
import { setTimeout as delay } from "node:timers/promises";
import {
  type RedisServer,
  startRedis,
  startSentinels,
} from "../../../tests/support/engines/redis-engine.js";
import { openTcpProxy } from "../../../tests/support/faults/tcp-proxy.js";
import type { Pair } from "./pair.js";

const POLL_MS = 20;

async function fieldOf(server: RedisServer, name: string): Promise<string | undefined> {
  const text = String(await server.ask("info", "replication"));
  return new RegExp(`^${name}:(.*?)\r?$`, "m").exec(text)?.[1];
}

/** A replica behind a link that can be cut. @param settings of the primary */
async function replicated(settings: Readonly<Record<string, string>>) {
  const [primary, replica] = await Promise.all([startRedis(settings), startRedis()]);
  const link = await openTcpProxy({ port: primary.port });
  await replica.ask("replicaof", "127.0.0.1", link.port);
  while ((await fieldOf(replica, "master_link_status")) !== "up") await delay(POLL_MS);
  const cut = async () => {
    const offset = Number(await fieldOf(primary, "master_repl_offset"));
    while (Number(await fieldOf(replica, "slave_repl_offset")) < offset) await delay(POLL_MS);
    // Both ways: a primary that receives messages from its replica counts it as connected.
    link.blackhole("toClient");
    link.blackhole("toServer");
  };
  return { primary, replica, link, cut };
}

/** @param settings of the primary */
export async function replicaPair(settings: Readonly<Record<string, string>> = {}): Promise<Pair> {
  const { primary, replica, link, cut } = await replicated(settings);
  const address = await openTcpProxy({ port: primary.port });
  return {
    url: `redis://127.0.0.1:${address.port}`,
    cut,
    async failOver() {
      await primary.kill9();
      await replica.ask("replicaof", "no", "one");
      address.redirect(replica.port);
      address.reset();
    },
    async close() {
      await Promise.all([address.close(), link.close()]);
      await Promise.all([primary.remove(), replica.remove()]);
    },
  };
}

/** Three Sentinels notice that the primary is dead, and promote its replica. */
export async function sentinelPair(): Promise<Pair> {
  const { primary, replica, link, cut } = await replicated({});
  // Sentinels have a replica whose primary has another address reconfigured after this time.
  const patience = "sentinel failover-timeout app 180000";
  const sentinels = await startSentinels({ app: primary.port }, [patience]);
  const hosts = sentinels.ports.map((port) => `127.0.0.1:${port}`).join(",");
  return {
    url: `redis+sentinel://${hosts}/app`,
    async cut() {
      await sentinels.agree("app", 1);
      await cut();
    },
    async failOver() {
      await primary.kill9();
      while ((await fieldOf(replica, "role")) !== "master") await delay(POLL_MS);
    },
    async close() {
      await sentinels.remove();
      await link.close();
      await Promise.all([primary.remove(), replica.remove()]);
    },
  };
}

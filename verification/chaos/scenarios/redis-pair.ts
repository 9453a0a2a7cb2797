/** A Redis primary and its replica, which is promoted; clients reach them through one address. */
import { setTimeout as delay } from "node:timers/promises";
import { type RedisServer, startRedis } from "../../../tests/support/redis-engine.js";
import { openTcpProxy } from "../../../tests/support/tcp-proxy.js";
import type { Pair } from "./pair.js";

const POLL_MS = 20;

async function fieldOf(server: RedisServer, name: string): Promise<string | undefined> {
  const text = String(await server.ask("info", "replication"));
  return new RegExp(`^${name}:(.*?)\r?$`, "m").exec(text)?.[1];
}

/** @param settings of the primary */
export async function replicaPair(settings: Readonly<Record<string, string>> = {}): Promise<Pair> {
  const [primary, replica] = await Promise.all([startRedis(settings), startRedis()]);
  const link = await openTcpProxy({ port: primary.port });
  const address = await openTcpProxy({ port: primary.port });
  await replica.ask("replicaof", "127.0.0.1", link.port);
  while ((await fieldOf(replica, "master_link_status")) !== "up") await delay(POLL_MS);
  return {
    url: `redis://127.0.0.1:${address.port}`,
    async cut() {
      const offset = Number(await fieldOf(primary, "master_repl_offset"));
      while (Number(await fieldOf(replica, "slave_repl_offset")) < offset) await delay(POLL_MS);
      // Both ways: a primary that receives messages from its replica counts it as connected.
      link.blackhole("toClient");
      link.blackhole("toServer");
    },
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

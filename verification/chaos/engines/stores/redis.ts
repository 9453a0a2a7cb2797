/** Redis, one server that keeps what it has answered. */
import { setTimeout as delay } from "node:timers/promises";
import {
  missingRedis,
  type RedisServer,
  startRedis,
} from "../../../../tests/support/engines/redis-engine.js";
import { engine, whileSo } from "../faults/engine.js";
import type { Engine, Kind, StoreSettings } from "../site.js";

export const redis: StoreSettings = {
  name: "redis",
  ttlMs: 1_000,
  lifeMs: 1_000,
  epsilonMs: 1_000,
  deadWaiter: { ticketMs: 6_000, costMs: 500 },
  missing: missingRedis,
  async open(): Promise<Engine> {
    const server = await startRedis({ appendonly: "yes", appendfsync: "always" });
    const info = String(await server.ask("info", "server"));
    return {
      version: `Redis ${/redis_version:(\S+)/.exec(info)?.[1]}`,
      kinds: redisKinds(server),
      portsFor: () => [server.port],
      urlOf: ([port]) => `redis://127.0.0.1:${port}`,
      remove: () => server.remove(),
    };
  },
};

function redisKinds(server: RedisServer): Kind[] {
  const { ask } = server;
  const setMemory = (bytes: number) => ask("config", "set", "maxmemory", bytes);
  return [
    whileSo(
      "Redis killed and started",
      () => server.kill9(),
      () => server.start(),
    ),
    whileSo(
      "Redis stopped and continued",
      async () => server.process?.stop(),
      async () => server.process?.cont(),
    ),
    whileSo(
      "Redis restarted",
      async () => server.process?.end("SIGTERM"),
      async () => {
        await server.kill9();
        await server.start();
      },
      [0, 0],
    ),
    engine("CLIENT KILL", async ({ ttlMs }) => {
      for (let times = 0; times < 5; times += 1) {
        for (const type of ["normal", "pubsub"]) await ask("client", "kill", "type", type);
        await delay(ttlMs / 4);
      }
      return true;
    }),
    engine("CLIENT PAUSE", async ({ ttlMs }) => {
      const pauseMs = 1.3 * ttlMs;
      await ask("client", "pause", pauseMs, "all");
      await delay(pauseMs);
      return true;
    }),
    engine("SCRIPT FLUSH", async ({ ttlMs }) => {
      for (let times = 0; times < 10; times += 1) {
        await ask("script", "flush");
        await delay(ttlMs / 10);
      }
      return true;
    }),
    whileSo(
      "memory used up",
      () => setMemory(1),
      () => setMemory(0),
    ),
  ];
}

/** What befalls one holder's ways to the store, all of them at once. */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "leasehold";
import type { Direction, TcpProxy } from "../../../../tests/support/faults/tcp-proxy.js";
import { between } from "../draws.js";
import type { Kind, Site } from "../site.js";

const TRICKLE_BYTES = 8;
const TRICKLE_MS = 5;
const DROPS = 3;

type Act = (proxy: TcpProxy, site: Site, random: Random) => unknown;

/** On each way; afterwards they are healed. */
const network = (name: string, act: Act): Kind => ({
  name,
  area: "network",
  happen: (site, random) =>
    site.atOne(random, async ({ proxies }) => {
      try {
        await Promise.all(proxies.map((proxy) => act(proxy, site, random)));
      } finally {
        for (const proxy of proxies) proxy.heal();
      }
    }),
});

const spell = ({ ttlMs }: Site, random: Random, least = 0.5, most = 2) =>
  delay(ttlMs * between(random, least, most));

/** Resets all connections afterwards: bytes are missing from them, so they are useless. */
const blackhole = (name: string, directions: readonly Direction[]): Kind =>
  network(name, async (proxy, site, random) => {
    for (const direction of directions) proxy.blackhole(direction);
    await spell(site, random);
    proxy.reset();
  });

const halfClose = (name: string, direction: Direction): Kind =>
  network(name, async (proxy, site, random) => {
    proxy.halfClose(direction);
    await spell(site, random, 0.5, 1);
  });

/** Kept back for longer than the lease, then delivered: requests that are late, in their order. */
const held = (name: string, direction: Direction): Kind =>
  network(name, async (proxy, { ttlMs }) => {
    proxy.hold(direction);
    await delay(1.3 * ttlMs);
    proxy.letGo(direction);
    await delay(0.3 * ttlMs);
  });

export const NETWORK_KINDS: readonly Kind[] = [
  network("connections reset", async (proxy, site, random) => {
    for (let times = 0; times < 3; times += 1) {
      proxy.reset();
      await spell(site, random, 0, 0.5);
    }
  }),
  halfClose("half-close to the server", "toServer"),
  halfClose("half-close to the client", "toClient"),
  blackhole("blackhole of requests", ["toServer"]),
  blackhole("blackhole of answers", ["toClient"]),
  blackhole("blackhole both ways", ["toServer", "toClient"]),
  network("delay", async (proxy, site, random) => {
    const delayMs = site.ttlMs / 10;
    proxy.delay("toServer", delayMs, delayMs);
    proxy.delay("toClient", delayMs, delayMs);
    await spell(site, random, 1, 2);
  }),
  network("sliced into bytes", async (proxy, site, random) => {
    proxy.slice("toServer", 1);
    proxy.slice("toClient", 7);
    await spell(site, random, 0.3, 0.6);
  }),
  network("answers dropped after the commit", async (proxy, { ttlMs }) => {
    for (let times = 0; times < DROPS; times += 1) {
      const dropped = proxy.connections.map((connection) => connection.dropNextAnswer());
      await Promise.race([Promise.any(dropped), delay(ttlMs)]).catch(() => {});
      for (const connection of proxy.connections) connection.keepAnswers();
    }
  }),
  held("requests held past the ttl, then delivered", "toServer"),
  held("answers held past the ttl, then delivered", "toClient"),
  network("slow trickle", async (proxy, { ttlMs }) => {
    const directions = ["toServer", "toClient"] as const;
    for (const direction of directions) proxy.slice(direction, TRICKLE_BYTES);
    // Let go and held again at once, each forwards one slice.
    for (let ms = 0; ms < 1.5 * ttlMs; ms += TRICKLE_MS) {
      for (const direction of directions) {
        proxy.letGo(direction);
        proxy.hold(direction);
      }
      await delay(TRICKLE_MS);
    }
  }),
  network("connections refused", async (proxy, site, random) => {
    proxy.refuse();
    await spell(site, random);
  }),
];

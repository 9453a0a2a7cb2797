/**
 * What breaks or ends again and again on every engine: the last time is like the first, and nothing piles up.
 * @module-tag safety
 */
import { getEventListeners, once } from "node:events";
import { describe, expect, it } from "vitest";
import { electorOver, type LeaderChange } from "../../packages/leasehold/src/election/index.js";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { LeaseClient } from "../../packages/leasehold/src/lease/index.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { CONSUL, ETCD, KUBERNETES, POSTGRES, REDIS, ZOOKEEPER } from "../support/faults/engines.js";
import { LONG_MS } from "../support/faults/fault-site.js";
import {
  laterIn,
  openBehind,
  openStore,
  request,
  rivalOf,
  settled,
  sharedServer,
} from "../support/faults/server.js";

const ROUNDS = 2;
const TERMS = 20;

describe.each([POSTGRES, REDIS, ETCD, ZOOKEEPER, CONSUL, KUBERNETES])("$name", (engine) => {
  engine.describe("again and again", () => {
    const shared = sharedServer(engine);

    it("a broken subscription notifies as before, each watcher as often, over as many connections", async (context) => {
      const later = laterIn(context);
      const direct = await openStore(shared(), later);
      const { proxy, store } = await openBehind(shared(), later);
      const watchers = [0, 1].map(() => new LeaseWatching(store, "default"));
      await until(expect, "the first events", () =>
        watchers.every(({ events }) => events.length > 0),
      );
      const countsOf = (name: string) =>
        watchers.map(({ changed }) => changed.filter(({ resource }) => resource === name).length);
      /** Frees a resource for which this client waits. */
      const free = async () => {
        const held = request();
        await settled(() => direct.acquire([held]));
        await settled(() => store.acquire([{ ...rivalOf(held), queueMs: 60_000 }]));
        await settled(() => direct.release([held]));
        return held.resource;
      };
      /** How often each watcher was notified of one resource, when the next one was notified of too. */
      const notified = async () => {
        const [name, last] = [await free(), await free()];
        await until(expect, "the notifications", () => countsOf(last).every((count) => count > 0));
        return countsOf(name);
      };
      const before = await notified();
      expect(before).toEqual([before[0], before[0]]);
      const connections = proxy.connections.length;

      for (let round = 0; round < ROUNDS; round += 1) {
        proxy.reset();
        // A release during the break may cause a resync alone.
        await until(expect, "a notification", async () => {
          const name = await free();
          const untilMs = performance.now() + 500;
          while (performance.now() < untilMs) {
            if (countsOf(name).every((count) => count > 0)) return true;
            await new Promise((resolve) => setTimeout(resolve, 5));
          }
          return false;
        });
        expect(await notified(), `after break ${round + 1}`).toEqual(before);
      }
      await until(expect, "no connection more", () => proxy.connections.length <= connections);
      for (const watcher of watchers) await watcher.stop();
    });

    it("two electors lead in turns, each term once, without a listener or a record more", async (context) => {
      const later = laterIn(context);
      const clients = ["a", "b", "c"].map(async (holder) => {
        const { proxy, store } = await openBehind(shared(), later);
        const client = new LeaseClient(store, { env: systemEnv, holder }, { close: undefined });
        return { proxy, store, leases: later(client) };
      });
      const [a, b, c] = await Promise.all(clients);
      const name = request().resource;
      const stop = new AbortController();
      const { signal } = stop;
      later({ close: async () => stop.abort() });
      const terms: { leader: string; token: number }[] = [];
      const electors = [a!, b!].map(({ leases }) =>
        electorOver(leases, name, { ttlMs: LONG_MS / 2 }),
      );
      const leading = electors.map((elector) =>
        elector.lead(
          async (term) => {
            terms.push({ leader: term.holder, token: term.token });
            await once(term.signal, "abort");
          },
          { signal },
        ),
      );
      const seen: LeaderChange[] = [];
      const observing = (async () => {
        const observer = electorOver(c!.leases, name);
        for await (const change of observer.observe({ signal })) seen.push(change);
      })();
      let connections = 0;
      for (let round = 0; round < TERMS; round += 1) {
        await until(expect, `term ${round + 1}`, () => terms.length > round);
        const leader = electors.findIndex(({ term }) => term !== undefined);
        const successor = [b!, a!][leader]!.leases.holder;
        await electors[leader]?.resign({ successor });
        await until(expect, "the successor leads", () => terms.at(-1)?.leader === successor);
        if (round > 0) continue;
        connections = Math.max(a!.proxy.connections.length, b!.proxy.connections.length);
      }
      expect(terms).toHaveLength(TERMS + 1);
      const tokens = terms.map(({ token }) => token);
      expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
      // Short terms may be skipped, and an engine may notify waiters alone.
      await until(expect, "a term is observed", () => seen.some(({ leader }) => leader !== null));
      const led = seen.filter(({ leader }) => leader !== null);
      expect(new Set(led.map(({ token }) => token)).size).toBe(led.length);
      for (const { leader, token } of led) expect(terms).toContainEqual({ leader, token });
      for (const each of [signal, a!.leases.closing, b!.leases.closing]) {
        expect(getEventListeners(each, "abort").length).toBeLessThan(TERMS / 2);
      }
      const { items } = await c!.store.list({ namespace: "default", prefix: name });
      expect(items.length).toBeLessThanOrEqual(2);
      for (const { proxy } of [a!, b!]) {
        await until(expect, "no connection more", () => proxy.connections.length <= connections);
      }
      stop.abort();
      await Promise.all([...leading, observing]);
      expect(getEventListeners(signal, "abort")).toEqual([]);
    });
  });
});

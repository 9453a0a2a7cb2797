/**
 * Clients of one process that wait for the same lease, each on its own, over shared connections. Each line
 * of input is the number of a new waiter. The program prints `queued NUMBER` when that one waits, and
 * `granted NUMBER TOKEN` when it has the lease. At the end of its input it ends when all have had it.
 *
 *   node waiters.js URL RESOURCE
 */
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { connect, type Leasehold, openStores } from "../../../packages/leasehold/src/index.js";
import type { LeaseStore } from "../../../packages/leasehold/src/lease/index.js";

const [url = "", resource = ""] = process.argv.slice(2);
const HELD_MS = 2;

const { leases: store, close } = await openStores(url);
const clients: Leasehold[] = [];
const waiting: Promise<void>[] = [];
for await (const number of createInterface(process.stdin)) {
  const client: LeaseStore = {
    capabilities: store.capabilities,
    async acquire(...call) {
      const outcomes = await store.acquire(...call);
      if (outcomes[0]?.status === "held") reportQueued();
      return outcomes;
    },
    renew: (...call) => store.renew(...call),
    release: (...call) => store.release(...call),
    revoke: (...call) => store.revoke(...call),
    get: (...call) => store.get(...call),
    list: (...call) => store.list(...call),
    watch: (...call) => store.watch(...call),
    collect: (...call) => store.collect(...call),
    close: async () => {},
  };
  let reportQueued = () => {
    console.log(`queued ${number}`);
    reportQueued = () => {};
  };
  const leases = await connect(client, { holder: `waiter-${number}` });
  clients.push(leases);
  const done = leases.run(resource, { ttlMs: 30_000 }, async ({ token }) => {
    console.log(`granted ${number} ${token}`);
    await delay(HELD_MS);
  });
  waiting.push(done);
}
await Promise.all(waiting);
await Promise.all(clients.map((leases) => leases.close()));
await close();

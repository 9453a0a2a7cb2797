// The load of many waiters on the store: 1,000 clients in the wait queue of one lease beside 10.
//
// ratio = acquire requests per handover with 1,000 / with 10. Each waiter is a client of its own on one
// PostgreSQL store, so that no waiter stands behind another in a local queue.
import { connect, openStores } from "leasehold";
import { interleaved } from "../measure.js";
import { ratioRow } from "../rows.js";

const HELD_MS = 1;

/** @type {import("../measure.js").Question} */
export default {
  question: "Store operations per hand-over with 1,000 waiters on one lease",
  async run({ engines, size, progress }) {
    const { leases: store, close } = await openStores(await engines.freshDatabase());
    const crowd = size(1_000, 300);
    let round = 0;
    const { crowded, few } = await interleaved(
      size(3, 1),
      {
        crowded: () => requestsPerHandOver(store, `crowd-${round++}`, crowd),
        few: () => requestsPerHandOver(store, `few-${round++}`, 10),
      },
      progress,
    );
    await close();
    const target = {
      id: "waiters-operations",
      what: `store requests per handover, ${crowd} waiters`,
      beside: "10 waiters",
      reach: 1.2,
      better: /** @type {const} */ ("lower"),
    };
    return [ratioRow(target, "requests", { [`${crowd} waiters`]: crowded, "10 waiters": few })];
  },
};

/**
 * @param {import("leasehold/port").LeaseStore} store
 * @param {string} resource
 * @param {number} size
 */
async function requestsPerHandOver(store, resource, size) {
  let requests = 0;
  /** @type {import("leasehold/port").LeaseStore} */
  const counting = {
    capabilities: store.capabilities,
    acquire(...call) {
      requests += call[0].length;
      return store.acquire(...call);
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
  const holder = await connect(counting);
  const held = await holder.acquire(resource);
  const clients = await Promise.all(Array.from({ length: size }, () => connect(counting)));
  const served = clients.map((leases) =>
    leases.run(resource, { ttlMs: 60_000 }, () => new Promise((done) => setTimeout(done, HELD_MS))),
  );
  // All clients enter the wait queue in this time. Their first requests are not counted.
  await new Promise((resolve) => setTimeout(resolve, 500 + 10 * size));
  requests = 0;
  await held.release();
  await Promise.all(served);
  await Promise.all([holder, ...clients].map((leases) => leases.close()));
  return { value: requests / size };
}

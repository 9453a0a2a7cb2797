// Our client on PostgreSQL, through the public API, called by many callers at once.
import { connect } from "leasehold";
import { forEach } from "../../measure.js";

/**
 * @param {string} url
 * @param {number} callers
 * @returns {Promise<import("./phases.js").LeaseContender>}
 */
export async function open(url, callers) {
  const leases = await connect(url, { defaults: { ttlMs: 60_000, autoRenew: false } });
  /** @type {import("leasehold").HeldLease[]} */
  let held = [];
  return {
    async acquire(names) {
      held = [];
      await forEach(callers, names, async (name) => {
        held.push(await leases.acquire(name));
      });
    },
    renew: () => forEach(callers, held, (lease) => lease.renew()),
    release: () => forEach(callers, held, (lease) => lease.release()),
    close: () => leases.close(),
  };
}

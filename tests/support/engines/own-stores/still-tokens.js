/** A store whose tokens stand still: it must not pass. */
import { openStores } from "leasehold";

export async function open() {
  const { leases } = await openStores("memory:");
  const { capabilities } = leases;
  const acquire = async (requests, options) => {
    const outcomes = await leases.acquire(requests, options);
    return outcomes.map((outcome) => ({ ...outcome, ...("token" in outcome && { token: 1 }) }));
  };
  return {
    capabilities,
    acquire,
    ...Object.fromEntries(
      ["renew", "release", "revoke", "get", "list", "watch", "collect", "close"].map((name) => [
        name,
        (...args) => leases[name](...args),
      ]),
    ),
  };
}

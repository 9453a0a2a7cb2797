/** A store that never answers a renewal. */
import { openStores } from "leasehold";

const { leases } = await openStores("memory:");
leases.renew = () => {
  process.stderr.write("renew\n");
  return new Promise(() => {});
};
export const store = leases;

/** How a store of etcd reaches members that a test plays. */
import type { Transport } from "../../../packages/leasehold/src/stores/etcd/connection.js";

export function scripted(
  call: Transport["call"],
  watch: Transport["watch"] = () => {
    throw new Error("no watch is played");
  },
): Transport {
  return { call, watch, leave: () => {}, close: () => {} };
}

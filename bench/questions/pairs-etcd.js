// Acquire and release on etcd beside the etcd3 package's lock.
//
// ratio = our pairs per second / theirs, 64 callers, each with resources of its own, on one member
// that writes durably.
import { Etcd3 } from "etcd3";
import { connect } from "leasehold";
import { interleaved, median, perSecond, rateOf, ratioRow } from "../measure.js";

const CALLERS = 64;

/** @type {import("../measure.js").Question} */
export default {
  question: "Acquire + release pairs per second on etcd with 64 callers",
  sideBySide: "the lock of the etcd3 package",
  ids: ["pairs-etcd3-64"],
  async run({ engines, size, progress }) {
    const url = await engines.etcd();
    const peer = new Etcd3({ hosts: url.replace("etcd:", "http:") });
    const leases = await connect(url, { defaults: { ttlMs: 30_000 } });
    const forMs = size(3_000, 1_000);
    const { ours, theirs } = await interleaved(
      size(5, 3),
      {
        ours: () =>
          rateOf(CALLERS, forMs, async (caller, turn) =>
            (await leases.acquire(`ours-${caller}-${turn % 16}`)).release(),
          ),
        theirs: () =>
          rateOf(CALLERS, forMs, async (caller, turn) => {
            const lock = peer.lock(`theirs-${caller}-${turn % 16}`).ttl(30);
            await lock.acquire();
            await lock.release();
          }),
      },
      progress,
    );
    await leases.close();
    peer.close();
    const row = {
      id: "pairs-etcd3-64",
      what: "etcd3",
      reach: 8,
      better: /** @type {const} */ ("higher"),
      figures: { ours: perSecond(median(ours)), theirs: perSecond(median(theirs)) },
    };
    return [ratioRow(row, ours, theirs)];
  },
};

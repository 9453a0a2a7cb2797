// Acquire and release on etcd beside the etcd3 package's lock.
//
// ratio = our pairs per second / theirs, 64 callers, each with resources of its own, on one member
// that writes durably.
import { Etcd3 } from "etcd3";
import { connect } from "leasehold";
import { interleaved, rateOf } from "../measure.js";
import { ratioRow } from "../rows.js";

const CALLERS = 64;

/** @type {import("../measure.js").Question} */
export default {
  question: "Acquire + release pairs per second on etcd with 64 callers",
  async run({ engines, size, progress }) {
    const url = await engines.etcd();
    const peer = new Etcd3({ hosts: url.replace("etcd:", "http:") });
    const leases = await connect(url, { defaults: { ttlMs: 30_000 } });
    const cpu = await engines.cpu("etcd");
    const forMs = size(3_000, 1_000);
    const { ours, theirs } = await interleaved(
      size(5, 3),
      {
        ours: () =>
          rateOf(cpu, CALLERS, forMs, async (caller, turn) =>
            (await leases.acquire(`ours-${caller}-${turn % 16}`)).release(),
          ),
        theirs: () =>
          rateOf(cpu, CALLERS, forMs, async (caller, turn) => {
            const lock = peer.lock(`theirs-${caller}-${turn % 16}`).ttl(30);
            await lock.acquire();
            await lock.release();
          }),
      },
      progress,
    );
    await leases.close();
    peer.close();
    const target = {
      id: "pairs-etcd3-64",
      what: "pairs on etcd, 64 callers",
      beside: "the lock of the etcd3 package",
      reach: 6,
      better: /** @type {const} */ ("higher"),
    };
    return [ratioRow(target, "/s", { ours, etcd3: theirs })];
  },
};

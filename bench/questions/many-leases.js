// One process that holds 100,000 leases of 60 s on PostgreSQL, renewed every 20 s.
//
// cpu   = share of one core that the process uses while it holds them (PostgreSQL's not counted)
// heap  = bytes of heap per held lease, after garbage collection
// notified = of revoked leases, the share whose holder was notified before their trusted time
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const MANY = fileURLToPath(new URL("../many.js", import.meta.url));

/** @type {import("../measure.js").Question} */
export default {
  question: "100,000 leases of 60 s held by one process",
  sideBySide: "the same process holding none",
  ids: ["many-cpu", "many-heap", "many-notified"],
  async run({ engines, size, progress }) {
    const count = 100_000;
    const holdMs = size(60_000, 21_000);
    progress(`acquiring ${count.toLocaleString("en")}, then holding for ${holdMs / 1_000} s`);
    const url = await engines.freshDatabase();
    const child = fork(MANY, [url, `${count}`, `${holdMs}`], { execArgv: ["--expose-gc"] });
    /** @type {{ idleShare: number, share: number, heapBytes: number, lost: number, notifiedInTime: number }} */
    const said = await new Promise((resolve, reject) => {
      child.once("message", resolve);
      child.once("exit", (code) => reject(new Error(`ended with ${code}`)));
    });
    const share = said.share - said.idleShare;
    return [
      {
        id: "many-cpu",
        what: "share of a core",
        ratio: share,
        reach: 0.15,
        better: "lower",
        samples: [share],
        figures: { holding: percent(said.share), "holding none": percent(said.idleShare) },
      },
      {
        id: "many-heap",
        what: "KB of heap a lease",
        ratio: said.heapBytes / 1_024,
        reach: 1,
        better: "lower",
        samples: [said.heapBytes / 1_024],
        figures: { bytes: `${Math.round(said.heapBytes)}` },
      },
      {
        id: "many-notified",
        what: "losses notified in time",
        ratio: said.notifiedInTime / said.lost,
        reach: 1,
        better: "higher",
        samples: [said.notifiedInTime / said.lost],
        figures: { revoked: `${said.lost}`, "notified in time": `${said.notifiedInTime}` },
      },
    ];
  },
};

/** @param {number} share */
function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

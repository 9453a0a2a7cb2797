/**
 * Work that runs on one node at a time, for as long as there are nodes.
 *
 *   node examples/singleton.js [URL]
 *
 * URL says where the leases are kept (postgres://..., redis://..., etcd://..., consul://..., http://127.0.0.1:4040
 * while `npm start` runs); without one, PGlite in this process.
 *
 * Failed work starts again, on the first node that acquires the lease. When the working node is closed, the
 * other one takes over at once. When work does not stop after its signal has aborted, its lease is not
 * released but expires, and only then does the other node begin.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, LeaseholdError } from "leasehold";
import { openSource } from "./support/source.js";

const { source, close } = await openSource(process.argv[2]);
let starts = 0;
let atWork = "";
/** The work waits for this promise after its signal has aborted. */
let drained = Promise.resolve();

/** As a rule each of these is a process of its own, on a machine of its own. */
async function node(/** @type {string} */ name) {
  const leasehold = await connect(source, { holder: name });
  const singleton = leasehold.singleton(
    "example-feed",
    async (lease) => {
      starts += 1;
      console.log(`${name} starts, token ${lease.token}`);
      if (starts === 1) throw new Error("the feed is down");
      atWork = name;
      await new Promise((resolve) => {
        lease.signal.addEventListener("abort", resolve, { once: true });
      });
      await drained;
      console.log(`${name} stops`);
    },
    { ttlMs: 2_000, restartDelayMs: 200, graceMs: 500 },
  );
  singleton.start();
  return { name, leasehold, singleton };
}

async function untilAtWork(/** @type {string[]} */ ...names) {
  while (!names.includes(atWork)) await sleep(20);
}

const nodes = await Promise.all(["ann", "bob"].map(node));
await untilAtWork("ann", "bob");
const [first, second] = nodes[0]?.name === atWork ? nodes : nodes.reverse();
if (!first || !second) throw new Error("there are two");

await first.singleton.close();
await untilAtWork(second.name);
console.log("the other has taken over");

const cid = await node("cid");
/** @type {(value?: undefined) => void} */
let finish = () => {};
drained = new Promise((resolve) => {
  finish = resolve;
});
await second.singleton.close().catch((/** @type {unknown} */ error) => {
  if (!(error instanceof LeaseholdError)) throw error;
  console.log(`the other does not stop: ${error.code}`);
});
const view = await cid.leasehold.get("example-feed");
console.log(`its lease is released: ${view?.state === "released"}`);
await untilAtWork("cid");
finish();
await second.singleton.close();

await cid.singleton.close();
for (const { leasehold } of [...nodes, cid]) await leasehold.close();
await close();

/**
 * Twelve parts of one piece of work, spread over members that come and go.
 *
 *   node examples/shards.js [URL]
 *
 * URL says where the leases are kept (postgres://..., redis://..., etcd://..., consul://..., http://127.0.0.1:4040
 * while `npm start` runs); without one, PGlite in this process.
 *
 * You will see one member work on all of them, two share them, three share them with few moves, and the
 * rest take over from one that leaves.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "leasehold";
import { openSource } from "./support/source.js";

const COUNT = 12;
const { source, close } = await openSource(process.argv[2]);

/** As a rule each of these is a process of its own, on a machine of its own. */
async function join(/** @type {string} */ name) {
  const leasehold = await connect(source, { holder: name });
  const shards = leasehold.shards("example-parts", {
    count: COUNT,
    ttlMs: 3_000,
    pollIntervalMs: 200,
    async work(_shard, lease) {
      while (!lease.signal.aborted) {
        if (lease.checkAlive()) worked += 1;
        await sleep(100, undefined, { signal: lease.signal }).catch(() => {});
      }
    },
  });
  shards.start();
  return {
    name,
    shards,
    async leave() {
      await shards.close();
      await leasehold.close();
    },
  };
}

/** Resolves when each of them has its part, and says who has what. */
async function even(/** @type {Awaited<ReturnType<typeof join>>[]} */ members) {
  for (;;) {
    const parts = members.map(({ shards }) => shards.held);
    if (parts.every((held) => held.length === COUNT / members.length)) break;
    await sleep(50);
  }
  for (const { name, shards } of members) console.log(`${name}: ${shards.held.join(" ")}`);
}

let worked = 0;
const ann = await join("ann");
await even([ann]);
const bob = await join("bob");
await even([ann, bob]);
const cid = await join("cid");
await even([ann, bob, cid]);
await ann.leave();
console.log("ann has left");
await even([bob, cid]);
console.log(`some work was done: ${worked > 0}`);
await Promise.all([bob.leave(), cid.leave()]);
await close();

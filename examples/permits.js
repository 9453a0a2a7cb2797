/**
 * At most three at once: each permit is a lease. A caller that holds all permits runs alone.
 *
 *   node examples/permits.js [URL]
 *
 * URL says where the leases are kept (postgres://..., redis://..., etcd://..., consul://..., http://127.0.0.1:4040
 * while `npm start` runs); without one, PGlite in this process.
 *
 * You will see eight downloads, three at once at most, and a clean-up that none of them runs beside.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, LeaseUnavailableError } from "leasehold";
import { openSource } from "./support/source.js";

/**
 * One of the places, as soon as one is free.
 * @param {import("leasehold").Leasehold} leases
 * @param {readonly string[]} places
 */
async function acquirePermit(leases, places) {
  for (;;) {
    const shuffled = [...places].sort(() => Math.random() - 0.5);
    for (const place of shuffled) {
      const lease = await leases.tryAcquire(place);
      if (lease) return lease;
    }
    // All permits are held. Wait for one of them, but not forever: another may be released first.
    try {
      return await leases.acquire(shuffled[0] ?? "", { waitMs: 1_000 });
    } catch (error) {
      if (!(error instanceof LeaseUnavailableError)) throw error;
    }
  }
}

const PLACES = ["example-download/1", "example-download/2", "example-download/3"];
const { source, close } = await openSource(process.argv[2]);
const clients = await Promise.all(["ann", "bob"].map((holder) => connect(source, { holder })));
let [running, most, besideCleanUp] = [0, 0, 0];

/** @param {import("leasehold").Leasehold} leases */
async function download(leases) {
  const permit = await acquirePermit(leases, PLACES);
  running += 1;
  most = Math.max(most, running);
  await sleep(100, undefined, { signal: permit.signal });
  running -= 1;
  await permit.release();
}

/** @param {import("leasehold").Leasehold} leases */
async function cleanUp(leases) {
  // It comes when all permits are taken.
  while (running < PLACES.length) await sleep(10);
  const all = await leases.acquireAll(PLACES);
  for (let step = 0; step < 5; step += 1) {
    besideCleanUp += running;
    await sleep(20);
  }
  await all.release();
}

const [ann, bob] = clients;
if (!ann || !bob) throw new Error("there are two");
const downloads = Array.from({ length: 8 }, (_, at) => download(at % 2 ? ann : bob));
await Promise.all([...downloads, cleanUp(ann)]);
console.log(`8 downloads, at most ${most} at once, ${besideCleanUp} beside the clean-up`);

await Promise.all(clients.map((leases) => leases.close()));
await close();

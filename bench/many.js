// Holds many leases and reports what that costs: node --expose-gc many.js URL COUNT TTL_MS HOLD_MS
import { connect } from "leasehold";

const [url = "", ...numbers] = process.argv.slice(2);
const [count = 1, ttlMs = 60_000, holdMs = 1_000] = numbers.map(Number);
const CALLERS = 2_000;
const REVOKED = 200;

const leases = await connect(url, { defaults: { ttlMs } });
const idleShare = await shareOfCore(2_000);
const before = heap();
/** @type {import("leasehold").HeldLease[]} */
const held = [];
let next = 0;
await Promise.all(
  Array.from({ length: CALLERS }, async () => {
    while (next < count) held.push(await leases.acquire(`many-${next++}`));
  }),
);
const heapBytes = (heap() - before) / count;
const share = await shareOfCore(holdMs);
const lost = held.filter((lease) => !lease.isHeld).length;
// An operator revokes some leases. Each holder must be notified while it still trusts its lease.
const ended = held.slice(0, REVOKED);
const notified = ended.map(
  (lease) =>
    new Promise((resolve) => {
      const trustedMs = performance.now() + lease.remainingMs();
      lease.onEnd(() => resolve(performance.now() <= trustedMs));
    }),
);
const operator = await connect(url);
await Promise.all(ended.map(({ resource }) => operator.revoke(resource)));
const notifiedInTime = (await Promise.all(notified)).filter(Boolean).length;
const figures = { idleShare, share, heapBytes, lost, revoked: REVOKED, notifiedInTime };
if (process.send) process.send(figures, () => process.exit(0));
else {
  console.log(figures);
  process.exit(0);
}

function heap() {
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

/** @param {number} forMs */
async function shareOfCore(forMs) {
  const [cpu, begin] = [process.cpuUsage(), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, forMs));
  const used = process.cpuUsage(cpu);
  return (used.user + used.system) / 1_000 / (performance.now() - begin);
}

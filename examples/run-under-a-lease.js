/**
 * Work that one process at a time may do: two workers want to close the same billing period.
 *
 *   node examples/run-under-a-lease.js [URL]
 *
 * URL says where the leases are kept: http://127.0.0.1:4040 while `npm start` runs, postgres://...;
 * without one, PGlite in this process.
 *
 * One worker works for longer than its TTL, because its lease is renewed. A caller that does not wait learns
 * who holds the lease. Then the other worker runs, with a larger token.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "leasehold";
import { openSource } from "./support/source.js";

const RESOURCE = "tenant_123:billing-close:2026-04";
const TTL_MS = 2_000;
const STEPS = 6;
const STEP_MS = 500;

const { source, close } = await openSource(process.argv[2]);

// As a rule each of these is a process of its own, on a machine of its own.
const defaults = { ttlMs: TTL_MS };
const [one, two, visitor] = await Promise.all([
  connect(source, { holder: "worker-1", defaults }),
  connect(source, { holder: "worker-2", defaults }),
  connect(source, { holder: "visitor" }),
]);

try {
  const [first, second] = await Promise.all([bill(one), bill(two), visit()]);
  console.log(`the token has grown: ${Math.max(first, second) > Math.min(first, second)}`);
} finally {
  await Promise.all([one.close(), two.close(), visitor.close()]);
  await close();
}

/**
 * Waits for the lease, works, and releases the lease, also when the work throws.
 * @param {import("leasehold").Leasehold} leases
 */
function bill(leases) {
  return leases.run(RESOURCE, async (lease) => {
    const beganMs = performance.now();
    console.log(`${lease.holder} works, token ${lease.token}`);
    for (let step = 1; step <= STEPS; step += 1) {
      // The step itself. It rejects when the lease is lost, and with it `run`.
      await sleep(STEP_MS, undefined, { signal: lease.signal });
      console.log(
        `${lease.holder} step ${step} of ${STEPS}, ${seconds(lease.remainingMs())} s left`,
      );
    }
    const workedMs = performance.now() - beganMs;
    console.log(
      `${lease.holder} is done after ${seconds(workedMs)} s, on a lease of ${seconds(TTL_MS)} s`,
    );
    return lease.token;
  });
}

/** Tries while a worker holds the lease, and does not wait. */
async function visit() {
  while ((await visitor.get(RESOURCE))?.state !== "live") await sleep(50);
  const result = await visitor.tryRun(RESOURCE, () => console.log("the lease was free"));
  if (!result.ran) console.log(`visitor: ${result.holder} has the lease`);
}

/** @param {number} ms */
function seconds(ms) {
  return (ms / 1_000).toFixed(1);
}

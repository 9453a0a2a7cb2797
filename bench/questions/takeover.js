// How soon a waiter acquires the leases of a killed holder, many leases at once.
//
// ratio = the 99th percentile of the time from the kill until the waiter holds the lease / (ttl + 100 ms).
// On memory, where a process cannot die alone, the holder's client stops instead of its process.
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { connect } from "leasehold";
import { quantile } from "../measure.js";
import { valueRow } from "../rows.js";

const TTL_MS = 1_000;
const LATE_MS = 100;
const LEASES = 50;
const HOLDER = fileURLToPath(new URL("../holder.js", import.meta.url));

/** @type {import("../measure.js").Question} */
export default {
  question: `A killed holder's ${LEASES} leases of ${TTL_MS} ms, acquired by a waiter`,
  async run({ engines, size, progress }) {
    const sources = {
      memory: "memory:takeover",
      postgres: await engines.freshDatabase(),
      redis: await engines.redis(),
    };
    const rows = [];
    for (const [name, source] of Object.entries(sources)) {
      const samples = [];
      const all = [];
      const rounds = size(5, 1);
      for (let round = 1; round <= rounds; round += 1) {
        progress(`${name}, round ${round} of ${rounds}`);
        const taken = await takeovers(source, name === "memory", `${name}-${round}`);
        samples.push(quantile(taken, 0.99) / (TTL_MS + LATE_MS));
        all.push(...taken);
      }
      const figure = (/** @type {number} */ share) => ({ value: quantile(all, share), unit: "ms" });
      rows.push(
        valueRow(
          {
            id: `takeover-${name}`,
            what: `p99 from a kill to the next holder, ${name}`,
            beside: `the TTL and ${LATE_MS} ms`,
            reach: 1,
            better: "lower",
          },
          "x",
          samples,
          { p50: figure(0.5), p99: figure(0.99), max: figure(1) },
        ),
      );
    }
    return rows;
  },
};

/**
 * @param {string} source
 * @param {boolean} inProcess
 * @param {string} prefix
 */
async function takeovers(source, inProcess, prefix) {
  const kill = inProcess ? await holdHere(source, prefix) : await holdElsewhere(source, prefix);
  const waiter = await connect(source, { defaults: { ttlMs: TTL_MS } });
  const taking = Array.from({ length: LEASES }, async (_, at) => {
    const lease = await waiter.acquire(`${prefix}-${at}`);
    return { lease, at: performance.now() };
  });
  // Renewals continue meanwhile, so the kill falls at a random time of each grant.
  await new Promise((resolve) => setTimeout(resolve, TTL_MS + 300 * Math.random()));
  const killedAt = performance.now();
  kill();
  const taken = await Promise.all(taking);
  await waiter.close();
  return taken.map(({ at }) => at - killedAt);
}

/**
 * @param {string} source
 * @param {string} prefix
 */
async function holdElsewhere(source, prefix) {
  const child = fork(HOLDER, [source, prefix, `${LEASES}`, `${TTL_MS}`]);
  await new Promise((resolve) => child.once("message", resolve));
  return () => child.kill("SIGKILL");
}

/**
 * Renews on a timer, until the returned function is called.
 * @param {string} source
 * @param {string} prefix
 */
async function holdHere(source, prefix) {
  const leases = await connect(source, { defaults: { ttlMs: TTL_MS, autoRenew: false } });
  const held = await Promise.all(
    Array.from({ length: LEASES }, (_, at) => leases.acquire(`${prefix}-${at}`)),
  );
  const timer = setInterval(() => {
    for (const lease of held) lease.renew().catch(() => {});
  }, TTL_MS / 3);
  return () => clearInterval(timer);
}

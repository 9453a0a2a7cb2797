// The healthy holders, in a process of their own: `node holders.js URL COUNT`. Says what became of them when its
// input ends.
import { fileURLToPath } from "node:url";

export const TTL_MS = 5_000;

async function hold(url, holders) {
  const { connect } = await import("leasehold");
  const quiet = { debug() {}, info() {}, warn() {}, error() {} };
  const figures = { lost: 0, because: {}, renewals: 0, leastLeftMs: TTL_MS };
  const lose = (reason) => {
    figures.lost += 1;
    figures.because[reason] = (figures.because[reason] ?? 0) + 1;
  };
  const leases = await connect(url, { holder: "overload", logger: quiet }).catch(() => null);
  const held = [];
  for (const one of await Promise.allSettled(
    Array.from({ length: holders }, async (_, index) =>
      leases.acquire(`held-${process.pid}-${index}`, { ttlMs: TTL_MS }),
    ),
  )) {
    if (one.status === "fulfilled") held.push(one.value);
    // A holder that cannot begin has lost as much as one that cannot go on.
    else lose("notAcquired");
  }
  for (const lease of held) lease.onLost(lose);
  let before = held.map((lease) => lease.remainingMs());
  const looking = setInterval(() => {
    const now = held.map((lease) => lease.remainingMs());
    figures.renewals += now.filter((leftMs, index) => leftMs > before[index]).length;
    figures.leastLeftMs = Math.round(Math.min(figures.leastLeftMs, ...now));
    before = now;
  }, 100);
  console.log("holding");
  for await (const _ of process.stdin);
  clearInterval(looking);
  // A lost lease makes this fail, and has been counted.
  await leases?.close().catch(() => {});
  console.log(JSON.stringify(figures));
}

const [, script, url, count] = process.argv;
if (script === fileURLToPath(import.meta.url)) await hold(url, Number(count));

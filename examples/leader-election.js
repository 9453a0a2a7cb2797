/**
 * Three candidates, one leader at a time.
 *
 *   node examples/leader-election.js [URL]
 *
 * URL says where the leases are kept (postgres://..., redis://..., etcd://..., consul://..., http://127.0.0.1:4040
 * while `npm start` runs); without one, PGlite in this process.
 *
 * You will see one of them lead and resign in favour of "cid", who leads although "bob" has waited
 * longer; a write of cid's that hangs for longer than its lease, while another leads with a larger
 * token and writes; and cid's write refused by the guard when it goes on.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, StaleTokenError } from "leasehold";
import { memoryGuard } from "leasehold/fence";
import { openSource } from "./support/source.js";

const TTL_MS = 2_000;
/** In front of what the leader writes to. In memory here: see fence() and sqlGuard() for databases. */
const guard = memoryGuard({
  onRefused: ({ token, lastToken }) => console.log(`refused: token ${token} after ${lastToken}`),
});
const { source, close } = await openSource(process.argv[2]);

/** As a rule each of these is a process of its own, on a machine of its own. */
async function candidate(/** @type {string} */ name) {
  const leasehold = await connect(source, { holder: name, namespace: "default" });
  const elector = leasehold.elector("example-cluster", { ttlMs: TTL_MS });
  const stop = new AbortController();
  const leading = elector.lead(
    async (term) => {
      console.log(`${name} leads, token ${term.token}`);
      await new Promise((resolve) => {
        term.signal.addEventListener("abort", resolve, { once: true });
      });
      console.log(`${name} stops`);
    },
    { signal: stop.signal },
  );
  return {
    name,
    leasehold,
    elector,
    async leave() {
      stop.abort();
      await leading;
      await leasehold.close();
    },
  };
}

/** Resolves to the one that leads, when it is not `other`. */
async function leaderBut(/** @type {unknown} */ other) {
  for (;;) {
    const found = all.find((one) => one !== other && one.elector.term);
    if (found) return found;
    await sleep(20);
  }
}

/** Prints each change of leader. A process need not be a candidate to observe. */
async function watch(
  /** @type {import("leasehold").Elector} */ elector,
  /** @type {AbortSignal} */ signal,
) {
  for await (const { leader } of elector.observe({ signal })) {
    console.log(`seen: ${leader === null ? "no leader" : `${leader} leads`}`);
  }
}

const all = await Promise.all(["ann", "bob", "cid"].map(candidate));
const cid = all[2];
if (!cid) throw new Error("cid stands");
const watching = new AbortController();
const watched = watch(cid.elector, watching.signal);

const first = await leaderBut(null);
if (first !== cid) await first.elector.resign({ successor: "cid" });
console.log(`cid leads: ${(await leaderBut(first === cid ? null : first)) === cid}`);

let lastWritten = 0;

/**
 * A leader's write that is sent in time, and arrives too late.
 * @type {(signal: AbortSignal, token: number) => Promise<void>}
 */
const writeLate = async (_, token) => {
  // Nothing here looks at the signal: so does a process that is suspended.
  while (lastWritten <= token) await sleep(50);
  await guard.guard("ledger", token, () => {
    throw new Error("a stale write came through");
  });
};
const late = cid.elector.runIfLeader(writeLate, { leaderWrite: true });
await cid.leasehold.revoke("example-cluster", { free: "now" });
const next = await leaderBut(cid);
/** @type {(signal: AbortSignal, token: number) => Promise<void>} */
const write = (_, token) =>
  guard.guard("ledger", token, () => {
    lastWritten = token;
    console.log(`${next.name} writes, token ${token}`);
  });
await next.elector.runIfLeader(write, { leaderWrite: true });
await late.catch((/** @type {unknown} */ error) => {
  const code = error instanceof StaleTokenError ? error.code : /** @type {any} */ (error).code;
  console.log(`cid's late write fails: ${code}`);
});

watching.abort();
await watched;
await Promise.all(all.map(({ leave }) => leave()));
await close();

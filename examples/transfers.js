/**
 * Transfers between accounts, each under the leases of both. They are acquired all or none, without deadlock.
 *
 *   node examples/transfers.js [URL]
 *
 * URL says where the leases are kept (postgres://..., redis://..., etcd://..., consul://..., http://127.0.0.1:4040
 * while `npm start` runs); without one, PGlite in this process.
 *
 * You will see transfers in opposite directions at once, each read, changed and written in steps; the
 * sum stay what it was; and a transfer that moves nothing, because one of its leases is revoked.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, LeaseLostError } from "leasehold";
import { openSource } from "./support/source.js";

const { source, close } = await openSource(process.argv[2]);
const [here, there] = await Promise.all([
  connect(source, { holder: "here" }),
  connect(source, { holder: "there" }),
]);
/** @type {Map<string, number>} Without leases, such a table forgets what others write meanwhile. */
const balances = new Map([
  /** @type {const} */ (["ada", 100]),
  /** @type {const} */ (["bob", 100]),
  /** @type {const} */ (["cid", 100]),
]);
const balanceOf = (/** @type {string} */ account) => balances.get(account) ?? 0;

/**
 * @param {import("leasehold").Leasehold} leases
 * @param {string} from
 * @param {string} to
 * @param {number} amount
 * @param {number} stepMs how long its reading takes
 */
async function transfer(leases, from, to, amount, stepMs = 10) {
  const both = await leases.acquireAll([`example-account:${from}`, `example-account:${to}`]);
  try {
    const [before, beforeTo] = [balanceOf(from), balanceOf(to)];
    // Over when the first of the two is lost.
    await sleep(stepMs, undefined, { signal: both.signal }).catch(() => {});
    if (!both.checkAlive()) throw both.signal.reason;
    balances.set(from, before - amount);
    balances.set(to, beforeTo + amount);
  } finally {
    await both.release();
  }
}

const pairs = /** @type {const} */ ([
  /** @type {const} */ (["ada", "bob"]),
  /** @type {const} */ (["bob", "ada"]),
  /** @type {const} */ (["bob", "cid"]),
  /** @type {const} */ (["cid", "ada"]),
]);
const transfers = Array.from({ length: 5 }, () =>
  pairs.flatMap(([from, to]) => [transfer(here, from, to, 7), transfer(there, to, from, 5)]),
).flat();
await Promise.all(transfers);
const sum = () => [...balances.values()].reduce((total, balance) => total + balance, 0);
console.log(`${transfers.length} transfers at once, sum ${sum()}: ${show()}`);

const before = show();
const late = transfer(here, "ada", "bob", 50, 60_000);
while ((await there.get("example-account:bob"))?.state !== "live") await sleep(20);
await there.revoke("example-account:bob", { free: "now" });
await late.catch((/** @type {unknown} */ error) => {
  if (!(error instanceof LeaseLostError)) throw error;
  console.log(
    `a transfer ends: ${error.code}, ${error.reason}; nothing moved: ${show() === before}`,
  );
});

await Promise.all([here.close(), there.close()]);
await close();

function show() {
  return [...balances].map(([account, balance]) => `${account} ${balance}`).join(", ");
}

/** What decides on loaded keys (packages/leasehold/src/store-kit). */
import { tested } from "../checks.js";

const KIT = "packages/leasehold/src/store-kit";
const suite = (name) => tested(`${KIT}/suite.test.ts`, `lease store ... ${name}`);
const deciding = (name) => tested(`${KIT}/deciding.test.ts`, name);

export const STORE_KIT = [
  {
    name: "kit-extends-an-expired-grant",
    what: "A renewal is saved although its grant has expired since the load: a version does not change by time.",
    file: `${KIT}/engine.ts`,
    find: "if (changesGrant) return current.record !== null && nowMs < current.record.expiresAtMs;",
    by: "if (changesGrant) return true;",
    check: suite("extends and ends no grant that expires before it saves"),
  },
  {
    name: "kit-grants-what-is-over",
    what: "A client that was paused between load and save makes a grant that has ended already.",
    file: `${KIT}/engine.ts`,
    find: "  return nowMs < record.expiresAtMs;",
    by: "  return true;",
    check: suite("makes no grant that is over when it is saved"),
  },
  {
    name: "kit-token-of-a-collected-record",
    what: "A grant that came and was collected since the load has a larger token than the one that is saved.",
    file: `${KIT}/engine.ts`,
    find: "  if (current.record === null && record.token <= current.tokenFloor) return false;\n",
    by: "",
    check: suite("gives a larger token than that of a grant that came and was collected"),
  },
  {
    name: "kit-token-by-the-record-alone",
    what: "The token of a new grant does not heed those of records that were collected.",
    file: `${KIT}/lease-steps.ts`,
    find: "const token = (last: number) => rules.nextToken(last, 0, loaded.leastToken);",
    by: "const token = (last: number) => last + 1;",
    check: suite("grow over the collection of ended records"),
  },
  {
    name: "kit-join-without-the-grant",
    what: "A waiter joins although the lease was released since the load, and no one wakes it.",
    file: `${KIT}/deciding.ts`,
    find: "for (const [at, { decided }] of changed.entries()) if (!saved[at]) unsaved.push(...decided);",
    by: "for (const [at, { key, decided }] of changed.entries()) if (!saved[at] && key.record) unsaved.push(...decided);",
    check: suite("leaves no waiter behind that joins when the lease has just been released"),
  },
  {
    name: "kit-conflict-answered",
    what: "The answer of a change that was not saved is given all the same: two callers have one lease.",
    file: `${KIT}/deciding.ts`,
    find: "for (const { index } of unsaved) outcomes[index] = null;",
    by: "unsaved.length = 0;",
    check: deciding("decides anew what others have changed, and leaves the rest"),
  },
  {
    name: "kit-passed-over-stays-passed-over",
    what: "A waiter that was passed over asks again in the same batch, joins, and is removed with its old position.",
    file: `${KIT}/queue-fold.ts`,
    find: "    if (!own && this.#loaded.positions.has(leaseId)) return false;\n",
    by: "",
    check: tested(
      "packages/leasehold/src/stores/postgres/lease-engine.test.ts",
      "alone: lease store ... lets a waiter that was passed over wait again",
    ),
  },
  {
    name: "kit-decides-behind-one-that-waits",
    what: "Requests behind one that needs the next load are decided before it.",
    file: `${KIT}/deciding.ts`,
    find: "      if (outcome === null) break;\n",
    by: "      if (outcome === null) continue;\n",
    check: deciding("decides in order also where a request needs the next load"),
  },
  {
    name: "kit-failed-load-maybe-applied",
    what: "A load that fails counts as a change that may have been made.",
    file: `${KIT}/deciding.ts`,
    find: 'fail(open, { ...engine.failed(error), applied: "no" });',
    by: "fail(open, engine.failed(error));",
    check: deciding("says that nothing was applied when a load fails"),
  },
  {
    name: "kit-failed-save-fails-all",
    what: "A save that fails takes the answers of keys with it that it was not to change.",
    file: `${KIT}/deciding.ts`,
    find: "for (const { decided } of changed) fail(decided, failed);",
    by: "for (const { decided } of folded) fail(decided, failed);",
    check: deciding("does not know what was applied when a save fails"),
  },
  {
    name: "kit-unconfirmed-grant",
    what: "A grant that was read is answered before a synchronous standby has it.",
    file: `${KIT}/deciding.ts`,
    find: "  if (read.length === 0) return;\n",
    by: "  if (read.length >= 0) return;\n",
    check: deciding("confirms a grant that it has read"),
  },
  {
    name: "kit-ends-another-grant-late",
    what: "A release does not say that it must come before the expiry of its grant.",
    file: `${KIT}/key-fold.ts`,
    find: "if (this.loaded.record?.leaseId === record.leaseId) this.changesGrant = true;",
    by: "if (this.loaded.record?.leaseId === record.leaseId && !record.ended) this.changesGrant = true;",
    check: suite("extends and ends no grant that expires before it saves"),
  },
  {
    name: "kit-saves-after-its-time",
    what: "A grant is saved although the time of its caller is over, so that no one holds what it blocks.",
    file: `${KIT}/deciding.ts`,
    find: "if (changed.length > 0 && leftMs() === 0) {",
    by: "if (changed.length > 0 && leftMs() < 0) {",
    check: deciding("saves nothing once its time is over"),
  },
  {
    name: "kit-forgets-a-waiter",
    what: "A request whose waiter has joined fails as one that nothing came of, so that its caller leaves the waiter behind.",
    file: `${KIT}/deciding.ts`,
    find: "if (key.joins.length > 0) for (const { index } of decided) joined.add(index);",
    by: "",
    check: deciding("does not say that nothing was applied once a waiter has joined"),
  },
];

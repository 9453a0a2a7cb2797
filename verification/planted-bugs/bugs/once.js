/** Work that succeeds at most once: its client, and the SQL of its records. */
import { simulated, tested } from "../checks.js";

const ONCE = "packages/leasehold/src/once/once.ts";
const SQL = "packages/leasehold/src/stores/postgres/once-statements.ts";
const STORE = "packages/leasehold/src/stores/postgres/once.ts";
const MEMORY = "packages/leasehold/src/stores/memory/once.ts";
const once = (name) => tested("packages/leasehold/src/once/once.test.ts", name);
const transactions = (name) => tested("packages/leasehold/src/once/transactions.test.ts", name);
const suite = (store, name) =>
  tested("tests/conformance/once-conformance.test.ts", `${store}: records of once ... ${name}`);

export const ONCE_BUGS = [
  {
    name: "once-no-second-look",
    what: "A caller does not read the record again under the lease, and repeats work that was recorded in between.",
    file: ONCE,
    find: "const settled = this.#answerOf(record);",
    by: "const settled = null as OnceResult<T> | null;",
    check: once("looks again under the lease"),
  },
  {
    name: "once-waiters-one-by-one",
    what: "A success does not wake the callers that wait for the lease. Each waits for its position in the queue.",
    file: ONCE,
    find: "      answer = found;\n      waiting.abort(ANSWERED);\n",
    by: "      answer = found;\n",
    check: once("wakes all waiters"),
  },
  {
    name: "once-early-look-takes-the-answer-back",
    what: "A look at the record that began earlier and comes back later takes back the answer that a waiter has found.",
    file: ONCE,
    find: "      if (!found) return;\n      answer = found;\n      waiting.abort(ANSWERED);\n",
    by: "      answer = found;\n      if (found) waiting.abort(ANSWERED);\n",
    check: once("earlier look"),
  },
  {
    name: "once-lost-reply-not-repeated",
    what: "A record whose reply was lost is reported as an error, although it was made.",
    file: ONCE,
    find: "one(send, { timeoutMs: RECORD_BUDGET_MS })",
    by: "one(send, { timeoutMs: RECORD_BUDGET_MS, repeatable: false })",
    check: once("asks again when the reply"),
  },
  {
    name: "once-commit-not-checked",
    what: "Work whose transaction was rolled back counts as done for its caller.",
    file: ONCE,
    find: 'if (record?.state === "done" && record.token === lease.token) {\n      return { ran: true, value: record.value as T };',
    by: "if (!lease.signal.aborted) {\n      return { ran: true, value: record?.value as T };",
    check: transactions("counts as a failure if the work returns without a commit"),
  },
  {
    name: "once-late-record",
    what: "A holder commits its transaction although another holder has recorded a success before.",
    file: STORE,
    find: "return row?.recorded ? RECORDED : await settledBy(session, request);\n      } catch",
    by: "return RECORDED;\n      } catch",
    check: tested("tests/faults/once.test.ts", "records each key once"),
  },
  {
    name: "once-record-without-lease",
    what: "A record needs only the lease id, not a live lease.",
    file: SQL,
    find: 'AND l.token = $4::bigint AND ${isLive("l")}\n    ${lock}',
    by: "AND l.token = $4::bigint\n    ${lock}",
    check: suite("PostgreSQL", "records nothing for a lease that has ended"),
  },
  {
    name: "once-kept-for-ever",
    what: "A record that is older than its `keepMs` is not replaced by the next one.",
    file: SQL,
    find: "WHERE o.keep_until <= excluded.done_at",
    by: "WHERE o.keep_until > excluded.done_at",
    check: suite("PostgreSQL", "forgets a success after keepMs"),
  },
  {
    name: "once-memory-any-token",
    what: "The memory store records a success for the right lease id with a wrong token.",
    file: MEMORY,
    find: "lease?.leaseId === leaseId && lease.token === token &&",
    by: "lease?.leaseId === leaseId && token > 0 &&",
    check: suite("memory", "records nothing under a wrong secret"),
  },
  {
    name: "once-record-after-expiry",
    what: "The memory store records for a lease that has expired, as long as no other caller has taken it.",
    file: MEMORY,
    find: "lease.token === token && rules.isLive(lease, nowMs)",
    by: "lease.token === token",
    check: simulated("once"),
  },
  {
    name: "once-work-after-success",
    what: "A caller that gets the lease works even if the record says that the work is done.",
    file: ONCE,
    find: "const settled = this.#answerOf(record);",
    by: "const settled = undefined as OnceResult<T> | undefined;",
    check: simulated("once"),
  },
];

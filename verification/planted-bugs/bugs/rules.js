/** The rules of leases and of waiting, by which every store decides. */
import { simulated, tested } from "../checks.js";

const FILE = "packages/leasehold/src/lease/rules.ts";
const QUEUE = "packages/leasehold/src/lease/queue.ts";

export const RULES = [
  {
    name: "expiry-by-less-or-equal",
    what: "A lease can be renewed at the exact time at which another holder may acquire it.",
    file: FILE,
    find: 'if (nowMs >= record.expiresAtMs) return lost("expired");',
    by: 'if (nowMs > record.expiresAtMs) return lost("expired");',
    check: tested("packages/leasehold/src/lease/rules.test.ts"),
  },
  {
    name: "renewal-revives",
    what: "An expired lease is renewed as long as it has no new holder.",
    file: FILE,
    find: 'if (nowMs >= record.expiresAtMs) return lost("expired");',
    by: "",
    check: simulated("leases"),
  },
  {
    name: "renewal-shortens",
    what: "A renewal with a shorter TTL takes away time that its holder already trusts.",
    file: FILE,
    find: "expiresAtMs: Math.max(record.expiresAtMs, nowMs + request.ttlMs),",
    by: "expiresAtMs: nowMs + request.ttlMs,",
    check: tested("tests/conformance/memory.test.ts", "never shortens a grant"),
  },
  {
    name: "renewal-of-what-was-revoked",
    what: "A holder whose lease an operator has revoked can still renew it.",
    file: FILE,
    find: 'if (record.ended === "revoked") return lost("revoked");',
    by: "",
    check: tested(
      "tests/conformance/memory.test.ts",
      "is refused after a revoke, before and after others take over",
    ),
  },
  {
    name: "release-by-holder",
    what: "A release frees the resource from any holder.",
    file: FILE,
    find: 'if (record?.leaseId !== request.leaseId) return { record, outcome: { status: "notHeld" } };',
    by: 'if (!record) return { record, outcome: { status: "notHeld" } };',
    check: simulated("leases"),
  },
  {
    name: "token-by-the-clock-alone",
    what: "The next token comes from the clock alone, so it is not larger than the last one if the clock was set back.",
    file: FILE,
    find: "const token = Math.max(last + 1, floor + 1, clock);",
    by: "const token = Math.max(floor + 1, clock);",
    check: tested("packages/leasehold/src/lease/rules.test.ts", "lies above the last token"),
  },
  {
    name: "token-reset",
    what: "Tokens start over after a few grants.",
    file: FILE,
    find: "const token = Math.max(last + 1, floor + 1, clock);",
    by: "const token = Math.max(floor + 1, clock, last % 3);",
    check: simulated("leases"),
  },
  {
    name: "retry-mints-a-new-token",
    what: "A repeated request returns its grant with another token.",
    file: FILE,
    find: "return { record, outcome: acquired(record, nowMs) };\n  }\n  if (record && excludes",
    by: "const again = { ...record, token: token(record.token) };\n    return { record: again, outcome: acquired(again, nowMs) };\n  }\n  if (record && excludes",
    check: simulated("leases"),
  },
  {
    name: "revoke-undone-by-a-retry",
    what: "A late copy of an acquire makes its grant again after that grant was ended.",
    file: FILE,
    find: 'if (!isLive(record, nowMs)) return { record, outcome: { status: "ended" } };',
    by: 'if (!isLive(record, nowMs)) return acquire({ ...record, leaseId: "", ended: "released" }, request, nowMs, token);',
    check: tested(
      "tests/conformance/memory.test.ts",
      "answers `ended` to a repeated request after a revoke that freed the key",
    ),
  },
  {
    name: "revoke-ignores-the-token",
    what: "An operator's revocation of one grant ends the next one, which was made meanwhile.",
    file: FILE,
    find: "if (request.expectedToken !== undefined && request.expectedToken !== record.token) {",
    by: "if (request.expectedToken !== undefined && request.expectedToken > record.token) {",
    check: tested("packages/leasehold/src/lease/rules.test.ts"),
  },
  {
    name: "revoked-is-free-at-once",
    what: "A revocation at expiry lets others in while the holder may still trust its lease.",
    file: FILE,
    find: 'expiresAtMs: request.free === "now" ? nowMs : record.expiresAtMs,',
    by: "expiresAtMs: nowMs,",
    check: tested(
      "tests/conformance/memory.test.ts",
      "at expiry refuses the holder but keeps others out while it may still trust its lease",
    ),
  },
  {
    name: "position-lost-by-polling",
    what: "A waiter that polls goes to the end of the queue.",
    file: QUEUE,
    find: "return waiters.with(at, { ...waiter, expiresAtMs: longer });",
    by: "return [...waiters.filter((one) => one.leaseId !== leaseId), { ...waiter, expiresAtMs: longer }];",
    check: tested(
      "packages/leasehold/src/lease/queue.test.ts",
      "keeps its queue position when it polls",
    ),
  },
  {
    name: "dead-waiter-blocks-the-queue",
    what: "The queue entries of dead waiters count for ever.",
    file: "packages/leasehold/src/stores/memory/wait-queue.ts",
    find: "if (nowMs < next.waiter.expiresAtMs) return;",
    by: "if (nowMs < next.waiter.expiresAtMs + 3_600_000) return;",
    check: tested(
      "tests/conformance/memory.test.ts",
      "drops the position of a waiter that stops polling",
    ),
  },
  {
    name: "newcomer-overtakes",
    what: "The first request after a release is granted, even if others wait.",
    file: QUEUE,
    find: "const keptMs = isRepeated ? 0 : reservedMs(record, ahead, nowMs);",
    by: "const keptMs = isRepeated ? 0 : reservedMs(record, 0 * ahead, nowMs);",
    check: tested("packages/leasehold/src/lease/queue.test.ts", "a free resource"),
  },
];

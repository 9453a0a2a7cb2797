/** Acquiring a lease, trusting it, renewing it, and releasing it. */
import { simulated, unit } from "../checks.js";

const ACQUIRE = "packages/leasehold/src/core/acquire.ts";
const HELD = "packages/leasehold/src/core/held-lease.ts";

export const HOLDING = [
  {
    name: "deadline-from-receipt",
    what: "The holder counts its time from the answer, not from before the request.",
    file: ACQUIRE,
    find: "const trust = trustFrom(sent, outcome.remainingMs, options);",
    by: "Object.assign(sent, instant(clock));\n          const trust = trustFrom(sent, outcome.remainingMs, options);",
    check: simulated("leases", 16),
  },
  {
    name: "renewed-deadline-from-receipt",
    what: "A renewal counts from its answer, so that a slow one promises too much.",
    file: HELD,
    find: "const trust = trustFrom(sent, outcome.remainingMs, this.#options);",
    by: "const trust = trustFrom(instant(clock), outcome.remainingMs, this.#options);",
    check: unit(
      "packages/leasehold/src/core/held-lease.test.ts",
      "counts from before a renewal, too",
    ),
  },
  {
    name: "no-look-at-trust-after-waiting",
    what: "A grant that expired before its answer came is taken for a live one.",
    file: ACQUIRE,
    find: "if (trustLeftMs(trust, clock) > 0) {",
    by: "if (trust) {",
    check: simulated("leases", 36),
  },
  {
    name: "check-alive-by-timer-only",
    what: "After a pause the holder trusts its lease until a timer has run.",
    file: HELD,
    find: 'if (this.#state !== "held") return false;\n    if (trustLeftMs(this.#trust, this.#env.clock) > 0) return true;',
    by: 'if (this.#state !== "held") return false;\n    if (this.#state === "held") return true;',
    check: simulated("leases"),
  },
  {
    name: "suspended-machine-unnoticed",
    what: "Trust is measured by a clock that stands still while the machine sleeps.",
    file: "packages/leasehold/src/core/trust.ts",
    find: "return Math.min(trust.untilMonotonicMs - clock.monotonic(), trust.untilWallMs - clock.wall());",
    by: "return trust.untilMonotonicMs - clock.monotonic();",
    check: unit(
      "packages/leasehold/src/core/held-lease.test.ts",
      "ends when the wall clock runs ahead",
    ),
  },
  {
    name: "drift-forgotten",
    what: "A holder whose clock runs slow trusts its lease for longer than the store keeps it.",
    file: "packages/leasehold/src/core/trust.ts",
    find: "const durationMs = remainingMs * (1 - terms.driftRatio) - terms.marginMs;",
    by: "const durationMs = remainingMs - terms.marginMs;",
    check: simulated("leases"),
  },
  {
    name: "retry-with-a-fresh-lease-id",
    what: "An acquire whose outcome is unknown is repeated under another lease id, and meets its own first grant.",
    file: ACQUIRE,
    find: 'unknown ||= outcome.applied === "maybe";',
    by: 'contender.leaseId = newLeaseId(random);\n          unknown ||= outcome.applied === "maybe";',
    check: unit(
      "packages/leasehold/src/core/client.test.ts",
      "answers the same grant when the first answer was lost",
    ),
  },
  {
    name: "given-up-but-granted",
    what: "A caller that gives up on an acquire leaves a possible grant behind, which blocks the resource.",
    file: ACQUIRE,
    find: "giveUp(context, { namespace, resource, leaseId: contender.leaseId }, answer);\n",
    by: "",
    check: unit("packages/leasehold/src/core/client.test.ts", "frees what it gave up on"),
  },
  {
    name: "abort-after-the-answer",
    what: "If the caller aborts between the answer and its reader, the grant is left without a holder.",
    file: ACQUIRE,
    find: "      abort.throwIfAborted();\n      maybe = false;",
    by: "      maybe = false;\n      abort.throwIfAborted();",
    check: unit(
      "packages/leasehold/src/core/client.test.ts",
      "frees the grant whenever the abort comes",
    ),
  },
  {
    name: "renewal-fails-silently",
    what: "The work does not learn that a renewal was refused.",
    file: HELD,
    find: 'case "lost":\n        this.lose(outcome.reason);\n        return undefined;',
    by: 'case "lost":\n        return undefined;',
    check: unit("packages/leasehold/src/core/held-lease.test.ts", "ends at once when refused"),
  },
  {
    name: "one-failed-renewal-is-the-last",
    what: "After a failed renewal the next one is tried only when the lease has expired.",
    file: HELD,
    find: "this.#renewAtMs = clock.monotonic() + jittered(random, delayMs, 0.5);",
    by: "this.#renewAtMs = clock.monotonic() + 4 * delayMs + leftMs;",
    check: unit("packages/leasehold/src/core/held-lease.test.ts"),
  },
  {
    name: "trust-outlives-the-release",
    what: "The holder trusts its lease while it is being released.",
    file: HELD,
    find: '    this.#state = "released";\n    this.#scheduler.remove(this);\n    this.#handlers = undefined;\n    try {\n      await this.#sendRelease();\n    } finally {',
    by: '    try {\n      await this.#sendRelease();\n    } finally {\n      this.#state = "released";\n      this.#scheduler.remove(this);\n      this.#handlers = undefined;',
    check: unit(
      "packages/leasehold/src/core/held-lease.test.ts",
      "ends trust before the store is called",
    ),
  },
  {
    name: "scheduler-sleeps-too-long",
    what: "A lease that is due before all others is renewed when the timer of the others runs.",
    file: "packages/leasehold/src/core/renewal-scheduler.ts",
    find: "if (!this.#timer || atMs < this.#timerAtMs) this.#arm();",
    by: "if (!this.#timer) this.#arm();",
    check: unit("packages/leasehold/src/core/renewal-scheduler.test.ts"),
  },
  {
    name: "sent-after-its-caller-has-gone",
    what: "An acquire that waited for longer than its caller is sent behind that caller's release.",
    file: "packages/leasehold/src/core/batching.ts",
    find: "(entry.deadlineMs > nowMs ? kept : overdue).push(entry);",
    by: "(entry.deadlineMs > -nowMs ? kept : overdue).push(entry);",
    check: unit("packages/leasehold/src/core/batching.test.ts", "drops unsent what waited"),
  },
  {
    name: "hung-call-stops-renewals",
    what: "A call that never settles stops all that wait behind it.",
    file: "packages/leasehold/src/core/batching.ts",
    find: "if (!Number.isFinite(timeoutMs)) return answer;",
    by: "if (timeoutMs > 0) return answer;",
    check: unit(
      "packages/leasehold/src/core/batching.test.ts",
      "answers `maybe` for a call that never settles",
    ),
  },
  {
    name: "same-key-twice-in-a-batch",
    what: "Two requests for one key in one batch are both answered with a grant.",
    file: "packages/leasehold/src/core/rounds.ts",
    find: "if (isSame) return outcome;",
    by: "return outcome;",
    check: unit("packages/leasehold/src/core/rounds.test.ts", "after a grant: held by it"),
  },
];

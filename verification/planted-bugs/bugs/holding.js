/** Acquiring a lease, trusting it, renewing it, and releasing it. */
import { simulated, tested } from "../checks.js";

const ACQUIRE = "packages/leasehold/src/lease/acquire.ts";
const HELD = "packages/leasehold/src/lease/held-lease.ts";
const THREAD_TEST = "packages/leasehold/src/renewal-thread/renewals.test.ts";

export const HOLDING = [
  {
    name: "deadline-from-receipt",
    what: "The holder counts its trust from the answer, not from before the request.",
    file: ACQUIRE,
    find: "const trust = trustFrom(sent, outcome.remainingMs, options);",
    by: "Object.assign(sent, instant(clock));\n          const trust = trustFrom(sent, outcome.remainingMs, options);",
    check: simulated("leases", 16),
  },
  {
    name: "renewed-deadline-from-receipt",
    what: "After a renewal, the holder counts its trust from the answer, so a slow renewal promises too much.",
    file: HELD,
    find: "const trust = trustFrom(sent, outcome.remainingMs, this.#options);",
    by: "const trust = trustFrom(instant(this.#env.clock), outcome.remainingMs, this.#options);",
    check: tested(
      "packages/leasehold/src/lease/held-lease.test.ts",
      "counts from before a renewal, too",
    ),
  },
  {
    name: "no-look-at-trust-after-waiting",
    what: "A grant that expired before its answer arrived is treated as live.",
    file: ACQUIRE,
    find: "if (trustLeftMs(trust, clock) > 0) {",
    by: "if (trust) {",
    check: simulated("leases", 36),
  },
  {
    name: "check-alive-by-timer-only",
    what: "After a pause, the holder trusts its lease until a timer has fired.",
    file: HELD,
    find: 'if (this.#state !== "held") return false;\n    if (trustLeftMs(this.#trust, this.#env.clock) > 0) return true;',
    by: 'if (this.#state !== "held") return false;\n    if (this.#state === "held") return true;',
    check: simulated("leases"),
  },
  {
    name: "suspended-machine-unnoticed",
    what: "Trust is measured by a clock that stops while the machine sleeps.",
    file: "packages/leasehold/src/lease/trust.ts",
    find: "return trust.untilMonotonicMs - monotonicMs - gainedMs(trust, aheadMs);",
    by: "return trust.untilMonotonicMs - clock.monotonic();",
    check: tested(
      "packages/leasehold/src/lease/held-lease.test.ts",
      "ends when the wall clock runs ahead",
    ),
  },
  {
    name: "drift-forgotten",
    what: "A holder whose clock runs slow trusts its lease for longer than the store keeps it.",
    file: "packages/leasehold/src/lease/trust.ts",
    find: "const durationMs = remainingMs * (1 - terms.driftRatio) - terms.marginMs;",
    by: "const durationMs = remainingMs - terms.marginMs;",
    check: simulated("leases"),
  },
  {
    name: "retry-with-a-fresh-lease-id",
    what: "An acquire with an unknown outcome is repeated under another lease id, and its own first grant refuses it.",
    file: ACQUIRE,
    find: 'unknown ||= outcome.applied === "maybe";',
    by: 'contender.leaseId = newLeaseId(random);\n          unknown ||= outcome.applied === "maybe";',
    check: tested(
      "packages/leasehold/src/lease/client.test.ts",
      "answers the same grant when the first answer was lost",
    ),
  },
  {
    name: "given-up-but-granted",
    what: "A caller that gives up on an acquire leaves a possible grant behind, which blocks the resource.",
    file: ACQUIRE,
    find: "giveUp(context, { namespace, resource, leaseId: contender.leaseId }, answer);\n",
    by: "",
    check: tested("packages/leasehold/src/lease/client.test.ts", "frees what it gave up on"),
  },
  {
    name: "abort-after-the-answer",
    what: "If the caller aborts between the answer and its reader, the grant is left without a holder.",
    file: ACQUIRE,
    find: "      abort.throwIfAborted();\n      maybe = false;",
    by: "      maybe = false;\n      abort.throwIfAborted();",
    check: tested(
      "packages/leasehold/src/lease/client.test.ts",
      "frees the grant of a second attempt whenever the abort comes",
    ),
  },
  {
    name: "renewal-fails-silently",
    what: "The work does not learn that a renewal was refused.",
    file: HELD,
    find: 'if (outcome.status === "lost") return this.lose(outcome.reason);',
    by: 'if (outcome.status === "lost") return;',
    check: tested("packages/leasehold/src/lease/held-lease.test.ts", "ends at once when refused"),
  },
  {
    name: "judged-before-the-thread-is-asked",
    what: "After a block of the event loop, the lease counts as lost although the renewal thread has renewed it.",
    file: HELD,
    find: "checkAlive(): boolean {\n    this.#readThread();",
    by: "checkAlive(): boolean {",
    check: tested(THREAD_TEST, "leaves the judgement to the timers"),
  },
  {
    name: "hung-work-renewed-for-ever",
    what: "The renewal thread renews the leases of a program that hangs in a loop.",
    file: "packages/leasehold/src/renewal-thread/renewals.ts",
    find: "if (this.#isBlocked()) return BLOCKED;\n",
    by: "",
    check: tested(THREAD_TEST, "renews no more after maxBlockedMs"),
  },
  {
    name: "one-failed-renewal-is-the-last",
    what: "After a failed renewal, the next attempt follows only when the lease has expired.",
    file: HELD,
    find: "this.#renewAtMs = clock.monotonic() + jittered(random, delayMs, 0.5);",
    by: "this.#renewAtMs = clock.monotonic() + 4 * delayMs + leftMs;",
    check: tested("packages/leasehold/src/lease/held-lease.test.ts"),
  },
  {
    name: "trust-outlives-the-release",
    what: "The holder trusts its lease while it is being released.",
    file: HELD,
    find: "    this.#endTrust();\n    if (!this.#isLeftBehind) {",
    by: "    queueMicrotask(() => this.#endTrust());\n    if (!this.#isLeftBehind) {",
    check: tested(
      "packages/leasehold/src/lease/held-lease.test.ts",
      "ends trust before the store is called",
    ),
  },
  {
    name: "scheduler-sleeps-too-long",
    what: "A lease that is due before all others is renewed only when the timer of the others fires.",
    file: "packages/leasehold/src/lease/renewal-scheduler.ts",
    find: "if (!this.#timer || atMs < this.#timerAtMs) this.#arm();",
    by: "if (!this.#timer) this.#arm();",
    check: tested("packages/leasehold/src/lease/renewal-scheduler.test.ts"),
  },
  {
    name: "sent-after-its-caller-has-gone",
    what: "An acquire whose caller gave up while it waited is sent after that caller's release.",
    file: "packages/leasehold/src/lease/batching.ts",
    find: "if (deadlineMs > nowMs) return true;",
    by: "if (deadlineMs > -nowMs) return true;",
    check: tested("packages/leasehold/src/lease/batching.test.ts", "drops unsent what waited"),
  },
  {
    name: "hung-call-stops-renewals",
    what: "A call that never settles blocks all calls behind it.",
    file: "packages/leasehold/src/lease/batching.ts",
    find: "if (!Number.isFinite(timeoutMs)) return answer;",
    by: "if (timeoutMs > 0) return answer;",
    check: tested(
      "packages/leasehold/src/lease/batching.test.ts",
      "answers `maybe` for a call that never settles",
    ),
  },
  {
    name: "same-key-twice-in-a-batch",
    what: "Two requests for one key in one batch are both answered with a grant.",
    file: "packages/leasehold/src/store-kit/key-fold.ts",
    find: "    this.current = record;\n    this.record = record;",
    by: "    this.record = record;",
    check: tested(
      "packages/leasehold/src/store-kit/deciding.test.ts",
      "decides all requests for a key on one load, in order",
    ),
  },
];

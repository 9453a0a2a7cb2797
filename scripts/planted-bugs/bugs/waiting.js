/** Waiting for a lease: turns within a process, places in line, hints. */
import { unit } from "../checks.js";

export const WAITING = [
  {
    name: "hint-lost-while-asking",
    what: "A wakeup that comes while the waiter asks is forgotten before it pauses.",
    file: "src/lease/place.ts",
    find: "    const { clock, random } = this.#env;\n    this.#ahead = last?.ahead ?? 0;",
    by: "    const { clock, random } = this.#env;\n    this.#called = false;\n    this.#ahead = last?.ahead ?? 0;",
    check: unit("src/lease/place.test.ts", "notices a hint that came while it was asking"),
  },
  {
    name: "aborted-caller-keeps-its-turn",
    what: "A caller that has gone is given the turn of those behind it.",
    file: "src/lease/turns.ts",
    find: "if (index >= 0) queue.splice(index, 1);",
    by: "",
    check: unit("src/lease/leases.test.ts", "gives the turn of who has gone to the next one"),
  },
  {
    name: "last-in-first-out",
    what: "Callers of one process are served from the end of the queue.",
    file: "src/lease/turns.ts",
    find: "const next = this.#queues.get(resource)?.shift();",
    by: "const next = this.#queues.get(resource)?.pop();",
    check: unit("src/lease/leases.test.ts", "serves waiters of one client first in, first out"),
  },
  {
    name: "watch-is-not-made-anew",
    what: "When the watch breaks, nobody who waits is woken any more.",
    file: "src/lease/hints.ts",
    find: 'this.#env.logger.warn({ err: error }, "watch broke; subscribing again");',
    by: 'this.#env.logger.warn({ err: error }, "watch broke");\n        return;',
    check: unit("src/lease/leases.test.ts", "is woken though the watch has broken before"),
  },
  {
    name: "place-not-given-up",
    what: "Who stops waiting leaves a ticket behind that others wait for.",
    file: "src/lease/waiting.ts",
    find: "if (queued && capabilities.queue) giveUp(context, { namespace, resource, ...ticket });",
    by: "if (!queued && capabilities.queue) giveUp(context, { namespace, resource, ...ticket });",
    check: unit("src/lease/waiting.test.ts", "one asking per hand-over"),
  },
  {
    name: "herd-at-each-release",
    what: "Every waiter asks the store at each release, not the first in line alone.",
    file: "src/lease/place.ts",
    find: "if (wakes === undefined || wakes === grantIdOf(this.ticket.leaseId)) {",
    by: "if (wakes === undefined || wakes !== grantIdOf(this.ticket.leaseId)) {",
    check: unit("src/lease/waiting.test.ts", "one asking per hand-over"),
  },
];

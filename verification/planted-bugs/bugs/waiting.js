/** Waiting for a lease: the local queue, queue positions, notifications. */
import { tested } from "../checks.js";

export const WAITING = [
  {
    name: "notification-lost-while-polling",
    what: "A notification that arrives while the waiter polls is lost, and the waiter backs off.",
    file: "packages/leasehold/src/lease/waiter.ts",
    find: "    const { clock, random } = this.#env;\n    this.#ahead = last?.ahead ?? 0;",
    by: "    const { clock, random } = this.#env;\n    this.#notified = false;\n    this.#ahead = last?.ahead ?? 0;",
    check: tested(
      "packages/leasehold/src/lease/waiter.test.ts",
      "notices a notification that came during its attempt",
    ),
  },
  {
    name: "aborted-caller-keeps-its-position",
    what: "A caller that has aborted stays at the head of the local queue.",
    file: "packages/leasehold/src/lease/waiter.ts",
    find: "        queue.splice(queue.indexOf(queued), 1);\n",
    by: "",
    check: tested(
      "packages/leasehold/src/lease/client.test.ts",
      "passes the head of the local queue on when its caller aborts",
    ),
  },
  {
    name: "last-in-first-out",
    what: "Callers of one process are served from the end of the queue.",
    file: "packages/leasehold/src/lease/waiter.ts",
    find: "const next = this.#queues.get(resource)?.shift();",
    by: "const next = this.#queues.get(resource)?.pop();",
    check: tested(
      "packages/leasehold/src/lease/client.test.ts",
      "serves waiters of one client first in, first out",
    ),
  },
  {
    name: "watch-is-not-made-anew",
    what: "After the watch has broken, no waiter is notified any more.",
    file: "packages/leasehold/src/lease/waiter.ts",
    find: 'this.#env.logger.warn({ err: error }, "watch broke; subscribing again");',
    by: 'this.#env.logger.warn({ err: error }, "watch broke");\n        return;',
    check: tested(
      "packages/leasehold/src/lease/client.test.ts",
      "is woken though the watch has broken before",
    ),
  },
  {
    name: "position-not-given-up",
    what: "A waiter that gives up leaves a queue entry behind that others wait for.",
    file: "packages/leasehold/src/lease/acquire.ts",
    find: "if (isQueued && capabilities.queue) giveUp(context, { namespace, resource, leaseId });",
    by: "if (!isQueued && capabilities.queue) giveUp(context, { namespace, resource, leaseId });",
    check: tested(
      "packages/leasehold/src/lease/client-close.test.ts",
      "closes the store only when a waiter's position in the queue has been released",
    ),
  },
  {
    name: "herd-at-each-release",
    what: "Every waiter polls the store at each release, not only the head of the queue.",
    file: "packages/leasehold/src/lease/waiter.ts",
    find: "if (wakes === undefined || wakes === grantIdOf(this.leaseId)) {",
    by: "if (wakes === undefined || wakes !== grantIdOf(this.leaseId)) {",
    check: tested("packages/leasehold/src/lease/acquire.test.ts", "one attempt per handover"),
  },
  {
    name: "cli-second-outage-not-reported",
    what: "A waiting command reports only the first outage of its store.",
    file: "packages/leasehold-server/src/cli/outage.ts",
    find: "      await sleep(this.#clock, POLL_MS, { signal }).catch(() => {});\n    }\n    this.#isPolling = false;\n",
    by: "      await sleep(this.#clock, POLL_MS, { signal }).catch(() => {});\n    }\n",
    check: tested("packages/leasehold-server/src/cli/outage.test.ts", "says of each outage"),
  },
];

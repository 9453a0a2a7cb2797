/** The HTTP client and the server: retries, time limits, ids. */
import { tested } from "../checks.js";

const CLIENT = "packages/leasehold/src/stores/http/connection.ts";
const RETRYING = "packages/leasehold/src/lease/retrying.ts";

export const HTTP = [
  {
    name: "revoke-sent-again",
    what: "A revoke whose answer was lost is repeated, and ends the grant that came after.",
    file: RETRYING,
    find: "{ repeatable: false, evenPassedOn: true }",
    by: "{ repeatable: true, evenPassedOn: true }",
    check: tested(
      "tests/faults/http-faults.test.ts",
      "a revocation whose answer is lost is not repeated",
    ),
  },
  {
    name: "last-try-decides",
    what: "If a retry is refused, the call reports that nothing was done, although an earlier attempt may have been applied.",
    file: RETRYING,
    find: 'const applied = before.applied === "maybe" ? "maybe" : failed.applied;',
    by: "const { applied } = failed;",
    check: tested("packages/leasehold/src/lease/retrying.test.ts"),
  },
  {
    name: "server-error-means-not-done",
    what: "A 500 counts as a promise that nothing was done.",
    file: CLIENT,
    find: 'if (status !== 429 && status !== 503) return failed("maybe", unavailable("maybe", detail));',
    by: 'if (status !== 429 && status !== 503) return failed("no", unavailable("no", detail));',
    check: tested("packages/leasehold/src/stores/http/connection.test.ts"),
  },
  {
    name: "reset-connection-means-not-sent",
    what: "A connection that breaks during a call counts as a call that was never sent.",
    file: CLIENT,
    find: 'const applied = wasNotSent(cause) ? "no" : "maybe";',
    by: 'const applied = code !== "" || wasNotSent(cause) ? "no" : "maybe";',
    check: tested("tests/faults/http-faults.test.ts"),
  },
  {
    name: "retry-after-ignored",
    what: "The client retries at once although the server asks it to wait.",
    file: RETRYING,
    find: "const pauseMs = retryAfterMs + backoff.nextMs();",
    by: "const pauseMs = 0 * retryAfterMs + backoff.nextMs();",
    check: tested("packages/leasehold/src/lease/retrying.test.ts"),
  },
  {
    name: "server-chooses-another-lease-id",
    what: "The server ignores the lease id that its client has chosen, so each attempt is another grant.",
    file: "packages/leasehold-server/src/http/compat/grants.ts",
    find: "return chosen?.leaseId ?? newLeaseId(services.env.random);",
    by: "return chosen && newLeaseId(services.env.random).length === 0 ? chosen.leaseId : newLeaseId(services.env.random);",
    check: tested("packages/leasehold-server/src/http/compat/locks.test.ts"),
  },
  {
    name: "batch-order-lost",
    what: "The outcomes of a batch that was sent in parts are returned in another order.",
    file: "packages/leasehold/src/stores/http/batch.ts",
    find: "    for (const outcome of outcomesOf<Outcome>(answer, count)) outcomes.push(outcome);",
    by: "    for (const outcome of outcomesOf<Outcome>(answer, count)) outcomes.unshift(outcome);",
    check: tested(
      "tests/conformance/http.test.ts",
      "http over memory: lease store ... answer in the order of the requests",
    ),
  },
  {
    name: "one-bad-request-fails-the-batch",
    what: "One invalid request makes all others of its batch fail.",
    file: "packages/leasehold/src/stores/http/batch.ts",
    find: "if (count > 1) {",
    by: "if (count > 1_000_000) {",
    check: tested("packages/leasehold/src/stores/http/connection.test.ts"),
  },
  {
    name: "audit-verify-stuck-after-failure",
    what: "A verification that has failed counts as still running.",
    file: "packages/leasehold-server/src/http/operations/verifying.ts",
    find: "    const verdict = this.#last.then(begin).finally(() => this.#tenants.delete(namespace));\n",
    by: "    const verdict = this.#last.then(begin);\n    verdict.then(() => this.#tenants.delete(namespace), () => {});\n",
    check: tested("packages/leasehold-server/src/http/operations/verifying.test.ts"),
  },
  {
    name: "large-renewals-wait-for-a-flood",
    what: "A batch of many renewals waits for sixteen turns of the event loop, however long a flood makes them.",
    file: "packages/leasehold-server/src/http/limits/request-turns.ts",
    find: " && this.#clock.monotonic() < untilMs",
    by: "",
    check: tested("packages/leasehold-server/src/http/limits/request-turns.test.ts", "flood"),
  },
  {
    name: "each-key-has-the-rate-of-its-tenant",
    what: "Each key has buckets of its own, so a tenant with many keys may send many times its rate.",
    file: "packages/leasehold-server/src/http/limits/tenant-admission.ts",
    find: "    let tenant = this.#tenants.get(namespace);\n",
    by: "    namespace = keyId;\n    let tenant = this.#tenants.get(namespace);\n",
    check: tested("packages/leasehold-server/src/http/limits/tenant-admission.test.ts"),
  },
  {
    name: "slots-are-free-at-once",
    what: "A slot is free in the turn in which its call ends, so that a fast store serves one tenant after another call of the same.",
    file: "packages/leasehold-server/src/http/limits/slots.ts",
    find: "if (takenMs === 0) void nextTurn().then(end);",
    by: "if (takenMs === 0) end();",
    check: tested("packages/leasehold-server/src/http/limits/slots.test.ts"),
  },
  {
    name: "slots-of-a-late-call-are-lost",
    what: "A call that gives up its wait lets none behind it begin.",
    file: "packages/leasehold-server/src/http/limits/slots.ts",
    find: "          this.#serve();\n        },",
    by: "        },",
    check: tested("packages/leasehold-server/src/http/limits/slots.test.ts"),
  },
];

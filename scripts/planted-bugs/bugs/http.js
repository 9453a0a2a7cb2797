/** The HTTP client and the server: retries, time limits, ids. */
import { conformance, integration, unit } from "../checks.js";

const CLIENT = "src/stores/http/client.ts";

export const HTTP = [
  {
    name: "revoke-sent-again",
    what: "A revoke whose answer was lost is repeated, and ends the grant that came after.",
    file: "src/stores/http/store.ts",
    find: 'return this.#send("revoke", bodies, false, options);',
    by: 'return this.#send("revoke", bodies, true, options);',
    check: integration(
      "test/http-faults.test.ts",
      "a revocation whose answer is lost is not repeated",
    ),
  },
  {
    name: "last-try-decides",
    what: "After a try without an answer, a later refusal says that nothing was done.",
    file: CLIENT,
    find: 'maybe ||= result.outcome === "maybe";',
    by: 'maybe = result.outcome === "maybe";',
    check: unit("src/stores/http/http.test.ts"),
  },
  {
    name: "server-error-means-not-done",
    what: "A 500 is taken for a promise that nothing was done.",
    file: CLIENT,
    find: 'return { outcome: "maybe", error: unavailable("maybe", detail) };',
    by: 'return { outcome: "no", error: unavailable("no", detail) };',
    check: unit("src/stores/http/http.test.ts"),
  },
  {
    name: "reset-connection-means-not-sent",
    what: "A connection that breaks under a call is taken for one that never was.",
    file: CLIENT,
    find: 'const outcome = connecting || NOT_SENT.has(code) ? "no" : "maybe";',
    by: 'const outcome = connecting || code !== "" || NOT_SENT.has(code) ? "no" : "maybe";',
    check: integration("test/http-faults.test.ts"),
  },
  {
    name: "retry-after-ignored",
    what: "A server that asks for a pause is asked again at once.",
    file: CLIENT,
    find: "return retryAfterMs + jittered(random, backoffMs, 0.5);",
    by: "return 0 * retryAfterMs + jittered(random, backoffMs, 0.5);",
    check: unit("src/stores/http/http.test.ts"),
  },
  {
    name: "server-chooses-another-lease-id",
    what: "The server does not take the lease id that its client has chosen: each try is another grant.",
    file: "src/server/grants.ts",
    find: "return chosen?.leaseId ?? newLeaseId(services.env.random);",
    by: "return chosen && newLeaseId(services.env.random).length === 0 ? chosen.leaseId : newLeaseId(services.env.random);",
    check: integration("src/server/locks.test.ts"),
  },
  {
    name: "batch-order-lost",
    what: "The outcomes of a batch that was sent in parts come back in another order.",
    file: "src/stores/http/batch.ts",
    find: "    for (const outcome of outcomesOf<Outcome>(answer, count)) outcomes.push(outcome);",
    by: "    for (const outcome of outcomesOf<Outcome>(answer, count)) outcomes.unshift(outcome);",
    check: conformance(
      "test/conformance/http.test.ts",
      "http over memory: lease store ... answer in the order of the requests",
    ),
  },
  {
    name: "one-bad-request-fails-the-batch",
    what: "A request that the server refuses takes all others of its batch with it.",
    file: "src/stores/http/batch.ts",
    find: "if (count > 1) {",
    by: "if (count > 1_000_000) {",
    check: unit("src/stores/http/http.test.ts"),
  },
];

/** Keys, tenants and roles. */
import { tested } from "../checks.js";

const CALLER = "packages/leasehold-server/src/http/auth/caller.ts";

export const ACCESS = [
  {
    name: "tenant-check-forgotten",
    what: "A lease is looked up by its name alone, so the answer shows that of another tenant.",
    file: "packages/leasehold-server/src/http/compat/grants.ts",
    find: "leases.get([{ namespace, resource }])",
    by: 'leases.get([{ namespace: namespace && "default", resource }])',
    check: tested("tests/operations/access.test.ts"),
  },
  {
    name: "key-compared-by-its-beginning",
    what: "Digests are compared only up to the length of the shorter one, or only by their first characters.",
    file: "packages/leasehold/src/control/api-keys.ts",
    find: "for (let at = 0; at < a.length; at += 1) different",
    by: "for (let at = 0; at < 8; at += 1) different",
    check: tested(
      "packages/leasehold/src/control/api-keys.test.ts",
      "digests are equal only when all of their digits are",
    ),
  },
  {
    name: "prefix-the-wrong-way-round",
    what: "A key for `orders/eu/` may act on `orders/`, because that is the beginning of its prefix.",
    file: CALLER,
    find: "prefixes.some((own) => prefix.startsWith(own));",
    by: "prefixes.some((own) => prefix.startsWith(own) || own.startsWith(prefix));",
    check: tested("tests/operations/tenants.test.ts"),
  },
  {
    name: "first-of-a-batch-is-checked",
    what: "Only the first resource of a batch must be within the caller's prefixes.",
    file: CALLER,
    find: "const forbidden = resources.find((resource) => !covers(caller, resource));",
    by: "const forbidden = resources.slice(0, 1).find((resource) => !covers(caller, resource));",
    check: tested(
      "tests/operations/tenants.test.ts",
      "refuses a batch with one resource outside of the prefixes",
    ),
  },
  {
    name: "revoked-key-goes-on",
    what: "A revoked key stays valid until it expires.",
    file: "packages/leasehold-server/src/http/auth/authenticate.ts",
    find: "if (revoked) throw",
    by: "if (revoked && remainingMs === 0) throw",
    check: tested("packages/leasehold-server/src/http/auth/authenticate.test.ts"),
  },
  {
    name: "key-found-so-let-in",
    what: "A caller that knows only the public part of a key is admitted.",
    file: "packages/leasehold-server/src/http/auth/authenticate.ts",
    find: "if (!record || !equalDigests(record.value.digest, named.digest)) {",
    by: "if (!record || equalDigests(record.value.digest, '')) {",
    check: tested("packages/leasehold-server/src/http/auth/authenticate.test.ts"),
  },
  {
    name: "metric-names-never-refilled",
    what: "If the metrics are read often, no name is reported after the first hundred.",
    file: "packages/leasehold/src/instrumentation/top-names.ts",
    find: "this.#refilledAtMs += passed * NEW_EVERY_MS;",
    by: "this.#refilledAtMs = this.#clock.monotonic();",
    check: tested(
      "packages/leasehold/src/instrumentation/top-names.test.ts",
      "however often it is read",
    ),
  },
];

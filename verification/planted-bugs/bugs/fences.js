/** Guards of what leases protect. */
import { tested } from "../checks.js";

const SQL = "packages/leasehold/src/fence/sql.ts";
const GUARD = "packages/leasehold/src/fence/guard.ts";
const REDIS = "packages/leasehold/src/fence/redis.ts";

export const FENCES = [
  {
    name: "fence-reads-then-writes",
    what: "The last token is read by a subselect: an older holder that waited for the row passes.",
    file: SQL,
    find: "    WHERE f.token <= excluded.token;\n  IF NOT FOUND",
    by: "    WHERE (SELECT g.token FROM leasehold.fence g WHERE g.namespace = f.namespace AND g.resource = f.resource) <= excluded.token;\n  IF NOT FOUND",
    check: tested("packages/leasehold/src/fence/fence.test.ts", "fence on PostgreSQL"),
  },
  {
    name: "fence-refuses-the-same-grant",
    what: "A holder's second write is refused, because its token has passed already.",
    file: SQL,
    find: "    WHERE f.token <= excluded.token;\n  IF NOT FOUND",
    by: "    WHERE f.token < excluded.token;\n  IF NOT FOUND",
    check: tested(
      "packages/leasehold/src/fence/fence.test.ts",
      "accepts a newer and an equal token",
    ),
  },
  {
    name: "fence-accepts-a-missing-token",
    what: "A STRICT function returns null for a missing token, and refuses no write.",
    file: SQL,
    find: ") RETURNS void LANGUAGE plpgsql VOLATILE AS $$",
    by: ") RETURNS void LANGUAGE plpgsql VOLATILE STRICT AS $$",
    check: tested("packages/leasehold/src/fence/fence.test.ts", "is a function in the database"),
  },
  {
    name: "fence-of-all-tenants",
    what: "Resources of the same name share a counter across tenants.",
    file: SQL,
    find: "await client.query(check, [resource, token, namespace])",
    by: 'await client.query(check, [resource, token, namespace && "default"])',
    check: tested(
      "packages/leasehold/src/fence/fence.test.ts",
      "accepts a newer and an equal token",
    ),
  },
  {
    name: "tokens-compared-as-strings",
    what: '"9" is larger than "10": a newer holder is refused, an older one passes.',
    file: REDIS,
    find: "if last and tonumber(last) > tonumber(ARGV[1]) then return {0, last} end",
    by: "if last and last > ARGV[1] then return {0, last} end",
    check: tested("packages/leasehold/src/fence/redis.test.ts"),
  },
  {
    name: "token-kept-after-the-write",
    what: "A write that fails half-way leaves no token, and an older one follows it.",
    file: REDIS,
    find: "redis.call('SET', KEYS[1], ARGV[1])\nreturn {1, write({unpack(KEYS, 2)}, {unpack(ARGV, 2)})}`;",
    by: "local value = write({unpack(KEYS, 2)}, {unpack(ARGV, 2)})\nredis.call('SET', KEYS[1], ARGV[1])\nreturn {1, value}`;",
    check: tested(
      "packages/leasehold/src/fence/redis.test.ts",
      "keeps the token of a write that failed half-way",
    ),
  },
  {
    name: "guard-checks-before-it-waits",
    what: "The token is compared when the request arrives, not when it enters the guard.",
    file: GUARD,
    find: "      const running = place.busy.then(() => {\n        if (token < place.lastToken) throw refusals.refuse(resource, token, place.lastToken);",
    by: "      if (token < place.lastToken) throw refusals.refuse(resource, token, place.lastToken);\n      const running = place.busy.then(() => {",
    check: tested(
      "packages/leasehold/src/fence/guard.test.ts",
      "keeps a newer holder waiting while an older one writes",
    ),
  },
  {
    name: "http-guard-lets-go-too-early",
    what: "The guard is left when the handler starts, so a newer holder writes at the same time.",
    file: "packages/leasehold/src/fence/http.ts",
    find: '      return new Promise<void>((leave) => {\n        over.addEventListener("abort", () => leave(), { once: true });\n      });\n',
    by: "",
    check: tested(
      "packages/leasehold/src/fence/http.test.ts",
      "lets a newer holder in when the older one's answer is done",
    ),
  },
];

/** Which claims give which role. */
import { expect, test } from "vitest";
import { type Claims, RoleRules, roleRuleOf } from "./roles.js";

const anyone = { tenant: undefined, prefixes: [], queues: [] };

test.each([
  ["groups:lease-admins=admin", { claim: "groups", value: "lease-admins", role: "admin" }],
  ["groups:CN=Ops,OU=x=operator", { claim: "groups", value: "CN=Ops,OU=x", role: "operator" }],
  [
    "sub:system:serviceaccount:a:b=holder,tenant=shop,prefix=a/,prefix=task:",
    {
      claim: "sub",
      value: "system:serviceaccount:a:b",
      role: "holder",
      tenant: "shop",
      prefixes: ["a/", "task:"],
    },
  ],
  [
    "groups:shop=operator,prefix=shop/,queue=mails,prefix=stock/",
    {
      claim: "groups",
      value: "shop",
      role: "operator",
      prefixes: ["shop/", "stock/"],
      queues: ["mails"],
    },
  ],
  ["sub:*=holder", { claim: "sub", value: "*", role: "holder", prefixes: [""] }],
  [
    '"https://id.example/groups":x=viewer,tenant=admin',
    { claim: "https://id.example/groups", value: "x", role: "viewer", tenant: "admin" },
  ],
])("the rule %s", (text, rule) => {
  expect(roleRuleOf(text)).toEqual({ ...anyone, ...rule });
});

test.each([
  ["", "is not CLAIM:VALUE=ROLE"],
  ["groups=admin", "is not CLAIM:VALUE=ROLE"],
  ["groups:=admin", "is not CLAIM:VALUE=ROLE"],
  ["groups:a=owner", "unknown role, owner"],
  ["groups:a=viewer,prefix=x", "a prefix, which limits only the roles holder and operator"],
  ["groups:a=holder,queue=x", "a queue, which limits only the role operator"],
  ["groups:a=operator,queue=", "must not be empty"],
  ["groups:a=viewer,tenant=x,tenant=y", "more than one tenant"],
  ["groups:a=viewer,tenant=", "must not be empty"],
  ['"a\\x":b=viewer', "not quoted as in JSON"],
])("%s is no rule", (text, problem) => {
  expect(() => roleRuleOf(text)).toThrow(problem);
});

const rules = (roles: readonly string[], tenantClaim?: string) =>
  new RoleRules({ roles, tenantClaim }, "default");

test.each<[Claims, string | null]>([
  [{ groups: ["a", "admins"] }, "admin"],
  [{ groups: "admins" }, "admin"],
  [{ groups: ["Admins", "admins2", " admins"] }, null],
  [{ groups: { admins: true } }, null],
  [{ groups: [["admins"]] }, null],
  [{ scope: "a leases.read b" }, "viewer"],
  [{ scope: "leases.readx" }, null],
  [{ groups: "x leases.read" }, null],
  [{ realm_access: { roles: ["ops"] } }, "operator"],
  [{ "realm_access.roles": ["ops"] }, "operator"],
  [{ sub: "ci:build" }, "holder"],
  [{ sub: "xci:build" }, null],
  [{ email_verified: true }, "viewer"],
  [{ email_verified: "no" }, null],
  [{}, null],
  // The first rule counts, whatever role it gives.
  [{ sub: "ci:build", groups: ["admins"] }, "admin"],
])("%j: %s", (claims, role) => {
  const all = rules([
    "groups:admins=admin",
    "realm_access.roles:ops=operator",
    "scope:leases.read=viewer",
    "sub:ci:*=holder",
    "email_verified:true=viewer",
  ]);
  expect(all.accessOf(claims)?.role ?? null).toBe(role);
  // What a session keeps gives the same.
  expect(all.accessOf(all.needed(claims))).toEqual(all.accessOf(claims));
});

test("members of all objects are no claims", () => {
  for (const claim of ["constructor", "__proto__", "constructor.name", "toString"]) {
    expect(rules([`${claim}:*=admin`]).accessOf({ sub: "a" })).toBeNull();
  }
});

test.each<[Claims, string | null]>([
  [{ sub: "a", org: "shop" }, "shop"],
  [{ sub: "a", org: ["shop"] }, "shop"],
  [{ sub: "a", org: ["shop", "other"] }, null],
  [{ sub: "a", org: "" }, null],
  [{ sub: "a", org: "x".repeat(257) }, null],
  [{ sub: "a" }, null],
  [{ sub: "ops" }, "all"],
])("a claim names the tenant: %j is of %s", (claims, tenant) => {
  const all = rules(["sub:ops=admin,tenant=all", "sub:*=viewer"], "org");
  expect(all.accessOf(claims)?.namespace ?? null).toBe(tenant);
  expect(all.accessOf(all.needed(claims))).toEqual(all.accessOf(claims));
});

test("a session keeps only what the rules name", () => {
  const all = rules(["groups:admins=admin", "sub:ci:*=holder"], "org");
  const claims = { sub: "ada", groups: ["secret", "admins"], email: "a@b", org: "shop" };
  expect(all.needed(claims)).toEqual({ groups: ["admins"], org: "shop" });
});

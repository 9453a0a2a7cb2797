/** Sessions and identities of several issuers: two of them may give the same subject to different people. */
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { Cookies } from "./cookies.js";
import { Oidc } from "./oidc.js";
import { RoleRules } from "./roles.js";
import { Seals } from "./seals.js";

const SECRET = "a secret of thirty-two characters or more";
const URL = "https://leases.example";

function open(issuer: string, roles = ["groups:admins=admin"]) {
  const env = manualEnv();
  const signIn = { clientId: "console", publicUrl: URL, sessionSecrets: [SECRET] };
  const oidc = new Oidc({ issuer, audience: "leases", roles, signIn }, "default", env);
  const seal = async (subject: string) => {
    const untilMs = env.clock.wall() + 60_000;
    const sealed = await oidc.sessionOf({ groups: ["admins"] }, subject, untilMs);
    return oidc.cookies.set("leasehold-session", sealed ?? "", 60, "Strict").split(";", 1)[0] ?? "";
  };
  const callerOf = (cookie: string) =>
    oidc.callerOf("", new Request(URL, { headers: { cookie, "sec-fetch-site": "same-origin" } }));
  return { seal, callerOf };
}

test("a session of another issuer is refused, also with the same secret and rules", async () => {
  const [one, other] = [open("https://one.example"), open("https://other.example")];
  const cookie = await one.seal("ada");
  expect(await one.callerOf(cookie)).toMatchObject({ actor: "oidc:ada", role: "admin" });
  await expect(other.callerOf(cookie)).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
});

test("callers of different issuers, and of different subjects, have different ids", async () => {
  const ids: (string | null | undefined)[] = [];
  for (const issuer of ["https://one.example", "https://other.example"]) {
    const { seal, callerOf } = open(issuer);
    for (const subject of ["ada", "bob"]) ids.push((await callerOf(await seal(subject)))?.keyId);
    expect((await callerOf(await seal("ada")))?.keyId).toBe(ids.at(-2));
  }
  expect(new Set(ids).size).toBe(4);
});

test("a session has the role of the token, of whose groups several rules name some", async () => {
  const roles = ["groups:viewers=viewer", "groups:admins=admin", "groups:ops=operator"];
  const rules = new RoleRules({ roles }, "default");
  for (const groups of [["admins", "viewers"], ["ops", "x", "admins"], ["ops"], ["x"]]) {
    const needed = rules.needed({ groups });
    expect(rules.accessOf(needed)).toEqual(rules.accessOf({ groups }));
  }
});

test("what is sealed for one purpose opens for no other", async () => {
  const env = manualEnv();
  const seals = new Seals([SECRET], env);
  const sealed = await seals.seal("sign-in", { a: 1 }, env.clock.wall() + 60_000);
  expect(await seals.open("sign-in", sealed)).toMatchObject({ content: { a: 1 } });
  expect(await seals.open("session", sealed)).toBeNull();
});

test("a secret is the same with the white space of its file and without", async () => {
  const env = manualEnv();
  const sealed = await new Seals([`${SECRET}\n`], env).seal(
    "session",
    {},
    env.clock.wall() + 1_000,
  );
  expect(await new Seals([SECRET], env).open("session", sealed)).toMatchObject({ content: {} });
});

test("a cookie is read by its whole name, and not at all if there are two of it", () => {
  const cookies = new Cookies(true);
  const name = "__Host-leasehold-session";
  const read = (cookie: string) =>
    cookies.read(new Request(URL, { headers: { cookie } }), "leasehold-session");
  expect(read(`a=1; ${name}=b=c; d`)).toBe("b=c");
  expect(read(`${name}2=x; x${name}=x; ${name}=b`)).toBe("b");
  expect(read(`leasehold-session=x; ${name}2=x`)).toBeUndefined();
  expect(read(`${name}=a; ${name}=b`)).toBeUndefined();
});

/** People sign in to the console, and sessions of it. */
import { inspect } from "node:util";
import { digestOf } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { afterEach, expect, test } from "vitest";
import { fakeIssuer, ISSUER } from "../../../../../../tests/support/server/fake-issuer.js";
import { memory } from "../../../../../leasehold/src/stores/memory/index.js";
import { createApp } from "../../app.js";
import type { ServerApp } from "../../app-options.js";
import type { OidcSignIn } from "./options.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const SECRET = "a secret of thirty-two characters or more";
const PUBLIC = "https://leases.example/base";

async function setUp(change: Partial<OidcSignIn> = {}, roles = ["groups:admins=admin"]) {
  const logged: { event?: string }[] = [];
  const log = (fields: object) => void logged.push(fields);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const published = await fakeIssuer(() => env.clock.wall());
  const stores = await memory().open(env);
  closing.push(() => stores.close());
  const open = (more: Partial<OidcSignIn> = {}, rules = roles): ServerApp => {
    const signIn = {
      clientId: "console",
      publicUrl: PUBLIC,
      sessionSecrets: [SECRET],
      ...change,
      ...more,
    };
    const oidc = {
      issuer: ISSUER,
      audience: "leases",
      roles: rules,
      fetch: published.fetch,
      signIn,
    };
    const app = createApp({ ...stores, env, version: "1", basePath: "/base", oidc });
    closing.push(() => app.close());
    return app;
  };
  const app = open();
  const url = (path: string) => `http://10.0.0.1:4040/base${path}`;
  const ask = (path: string, headers: Record<string, string> = {}, method = "GET", by = app) =>
    by.fetch(new Request(url(path), { method, headers }));
  const begin = async (to = "/leases?q=a") => {
    const response = await ask(`/session/sign-in?to=${encodeURIComponent(to)}`);
    const target = new URL(response.headers.get("location") ?? "");
    return { response, target, cookie: cookieOf(response, "__Host-leasehold-sign-in") ?? "" };
  };
  /** Answers codes with an ID token. */
  const answerWith = (claims: (nonce: string) => Record<string, unknown>, nonce: string) => {
    published.tokens = async () => ({ id_token: await published.sign(claims(nonce)) });
  };
  const usual = (nonce: string) => ({ aud: "console", nonce, groups: ["admins", "others"] });
  const signIn = async (
    claims: (nonce: string) => Record<string, unknown> = usual,
    to?: string,
  ): Promise<Response> => {
    const { target, cookie } = await begin(to);
    answerWith(claims, target.searchParams.get("nonce") ?? "");
    const state = target.searchParams.get("state") ?? "";
    return ask(`/session/callback?code=c&state=${state}`, { cookie });
  };
  return { env, app, open, ask, begin, signIn, published, logged, usual, answerWith };
}

function cookieOf(response: Response, name: string): string | undefined {
  const set = response.headers.getSetCookie().find((each) => each.startsWith(`${name}=`));
  return set?.split(";", 1)[0];
}

const sessionOf = (response: Response) => cookieOf(response, "__Host-leasehold-session") ?? "";
const SAME = { "sec-fetch-site": "same-origin" };

test("a sign-in asks the issuer for a code, by PKCE, with state and nonce", async () => {
  const { begin } = await setUp();
  const { response, target } = await begin();
  expect(response.status).toBe(303);
  expect(`${target.origin}${target.pathname}`).toBe(`${ISSUER}/authorize`);
  const parameters = Object.fromEntries(target.searchParams);
  expect(parameters).toEqual({
    response_type: "code",
    client_id: "console",
    redirect_uri: `${PUBLIC}/session/callback`,
    scope: "openid",
    state: expect.stringMatching(/^[0-9a-f]{32}$/),
    nonce: expect.stringMatching(/^[0-9a-f]{32}$/),
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    code_challenge_method: "S256",
  });
  const [cookie = ""] = response.headers.getSetCookie();
  expect(cookie.replace(/=[^;]+/, "")).toBe(
    "__Host-leasehold-sign-in; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure",
  );
  expect(response.headers.get("cache-control")).toBe("no-store");
});

test("a code becomes a session, whose cookie no script reads and which ends with the ID token", async () => {
  const { signIn, ask, env, published, logged } = await setUp({ clientSecret: "s:cret" });
  const response = await signIn();
  published.tokens = null;
  expect(response.status).toBe(303);
  expect(response.headers.get("location")).toBe(`${PUBLIC}/leases?q=a`);
  const set = response.headers.getSetCookie();
  expect(set[0]).toMatch(/^__Host-leasehold-sign-in=; .*Max-Age=0/);
  expect(set[1]?.replace(/=[^;]+/, "")).toBe(
    "__Host-leasehold-session; Path=/; HttpOnly; SameSite=Strict; Max-Age=305; Secure",
  );
  const cookie = sessionOf(response);
  const who = await ask("/v1/whoami", { cookie, ...SAME });
  expect(await who.json()).toMatchObject({
    namespace: "default",
    role: "admin",
    actor: "oidc:ada",
    keyId: expect.stringMatching(/^oidc:[0-9a-f]{16}$/),
  });
  expect(logged).toContainEqual({ event: "console_sign_in", actor: "oidc:ada" });
  await env.clock.advance(305_000);
  const late = await ask("/v1/whoami", { cookie, ...SAME });
  expect([late.status, ((await late.json()) as { detail: string }).detail]).toEqual([
    401,
    "the session has ended: sign in again",
  ]);
});

test("the code is exchanged with the verifier of its challenge, and with the client's secret", async () => {
  const { begin, ask, published } = await setUp({ clientSecret: "s:cret/ä" });
  const { target, cookie } = await begin();
  const sent: { form: URLSearchParams; authorization: string | null }[] = [];
  published.tokens = async (form, headers) => {
    sent.push({ form, authorization: headers.get("authorization") });
    const nonce = target.searchParams.get("nonce");
    return { id_token: await published.sign({ aud: "console", nonce, groups: "admins" }) };
  };
  const state = target.searchParams.get("state");
  const response = await ask(`/session/callback?code=the-code&state=${state}`, { cookie });
  expect(sessionOf(response)).not.toBe("");
  const [{ form, authorization } = { form: new URLSearchParams(), authorization: "" }] = sent;
  expect(Object.fromEntries(form)).toEqual({
    grant_type: "authorization_code",
    code: "the-code",
    redirect_uri: `${PUBLIC}/session/callback`,
    code_verifier: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  expect(authorization).toBe(`Basic ${btoa("console:s%3Acret%2F%C3%A4")}`);
  const challenge = Buffer.from(digestOf(form.get("code_verifier") ?? ""), "hex");
  expect(target.searchParams.get("code_challenge")).toBe(challenge.toString("base64url"));
});

test.each<[string, (state: string) => string, boolean, string]>([
  ["of another state", () => "code=c&state=0", true, "late"],
  ["without a state", () => "code=c", true, "late"],
  ["of another browser", (state) => `code=c&state=${state}`, false, "late"],
  [
    "of another issuer",
    (state) => `code=c&state=${state}&iss=https://evil.example`,
    true,
    "failed",
  ],
  ["that refuses", (state) => `error=access_denied&state=${state}`, true, "refused"],
])("an answer %s signs in no one", async (_, query, hasCookie, failure) => {
  const { begin, ask, answerWith, usual } = await setUp();
  const { target, cookie } = await begin();
  answerWith(usual, target.searchParams.get("nonce") ?? "");
  const path = `/session/callback?${query(target.searchParams.get("state") ?? "")}`;
  const response = await ask(path, hasCookie ? { cookie } : {});
  expect(response.headers.get("location")).toBe(`${PUBLIC}/#sign-in=${failure}`);
  expect(sessionOf(response)).toBe("");
});

test("a sign-in ends after ten minutes", async () => {
  const { begin, ask, env } = await setUp();
  const { target, cookie } = await begin();
  await env.clock.advance(600_000);
  const path = `/session/callback?code=c&state=${target.searchParams.get("state")}`;
  const response = await ask(path, { cookie });
  expect(response.headers.get("location")).toBe(`${PUBLIC}/#sign-in=late`);
});

test.each<[string, Record<string, unknown>, string]>([
  ["for the API", { aud: "leases" }, "failed"],
  ["for several clients, without ours as the party", { aud: ["console", "x"] }, "failed"],
  ["that was issued to another client", { azp: "x" }, "failed"],
  ["of another sign-in", { nonce: "0" }, "failed"],
  ["of another issuer", { iss: "https://evil.example" }, "failed"],
  ["that has ended", { exp: 1 }, "failed"],
  ["without a role", { groups: ["others"] }, "no-access"],
])("an ID token %s signs in no one", async (_, claims, failure) => {
  const { signIn, usual } = await setUp();
  const response = await signIn((nonce) => ({ ...usual(nonce), ...claims }));
  expect(response.headers.get("location")).toBe(`${PUBLIC}/#sign-in=${failure}`);
  expect(sessionOf(response)).toBe("");
});

test("an issuer that answers the code with an error signs in no one, and the log has no code", async () => {
  const { begin, ask, published, logged } = await setUp();
  const { target, cookie } = await begin();
  // As some issuers answer a wrong client secret, with a challenge too.
  const answer = { error: "invalid_grant", error_description: "no secret-code" };
  const init = { status: 401, headers: { "www-authenticate": "Basic" } };
  published.tokens = () => Response.json(answer, init);
  const path = `/session/callback?code=secret-code&state=${target.searchParams.get("state")}`;
  const response = await ask(path, { cookie });
  expect(response.headers.get("location")).toBe(`${PUBLIC}/#sign-in=failed`);
  const failure = logged.find(({ event }) => event === "console_sign_in_failed");
  expect(String((failure as { err?: Error } | undefined)?.err)).toContain("invalid_grant");
  expect(inspect(logged, { depth: 10, showHidden: true })).not.toContain("secret-code");
});

test("the log has no claim and no token of a refused sign-in", async () => {
  const { signIn, usual, logged } = await setUp();
  await signIn((nonce) => ({ ...usual(nonce), nonce: "another", email: "ada@example" }));
  const failure = logged.find(({ event }) => event === "console_sign_in_failed");
  expect(String((failure as { err?: Error } | undefined)?.err)).toContain("nonce");
  expect(inspect(failure, { depth: 10, showHidden: true })).not.toMatch(/another|ada@|eyJ/);
});

test("the log has one failed sign-in a second, and no text of the URL", async () => {
  const { begin, ask, logged, env } = await setUp();
  const { target, cookie } = await begin();
  const state = target.searchParams.get("state");
  const path = `/session/callback?error=${encodeURIComponent("a\nforged line")}&state=${state}`;
  const failures = () => logged.filter(({ event }) => event === "console_sign_in_failed");
  for (let times = 0; times < 20; times += 1) await ask(path, { cookie });
  expect(failures()).toHaveLength(1);
  await env.clock.advance(1_000);
  await ask(path, { cookie });
  expect(failures()).toHaveLength(2);
  expect(inspect(failures(), { depth: 10, showHidden: true })).not.toContain("forged");
});

test.each([
  ["/tasks?state=dead", "/tasks?state=dead"],
  ["https://evil.example/", "/"],
  ["//evil.example", "/"],
  ["/\\evil.example", "/"],
  ["/.//evil.example", "//evil.example"],
  ["tasks", "/"],
  ["javascript:alert(1)", "/"],
])("after a sign-in for %s the browser goes on in the console", async (to, path) => {
  const { signIn, usual } = await setUp();
  const response = await signIn(usual, to);
  expect(response.headers.get("location")).toBe(`${PUBLIC}${path}`);
});

test("servers with the same secret share sessions; others do not", async () => {
  const { signIn, open, ask } = await setUp();
  const cookie = sessionOf(await signIn());
  const statusBy = async (app: ServerApp) =>
    (await ask("/v1/whoami", { cookie, ...SAME }, "GET", app)).status;
  expect(await statusBy(open())).toBe(200);
  const next = "the next secret, which has enough characters";
  expect(await statusBy(open({ sessionSecrets: [next, SECRET] }))).toBe(200);
  expect(await statusBy(open({ sessionSecrets: [next] }))).toBe(401);
  expect(await statusBy(open({ sessionSecrets: undefined }))).toBe(401);
});

test("a changed rule counts for sessions at once", async () => {
  const { signIn, open, ask } = await setUp();
  const cookie = sessionOf(await signIn());
  const roleBy = async (roles: string[]) => {
    const response = await ask("/v1/whoami", { cookie, ...SAME }, "GET", open({}, roles));
    return [response.status, ((await response.json()) as { role?: string }).role];
  };
  expect(await roleBy(["groups:admins=viewer"])).toEqual([200, "viewer"]);
  expect(await roleBy(["groups:operators=admin"])).toEqual([403, undefined]);
});

test("the cookie of a sign-in is no session, nor is one that was changed", async () => {
  const { begin, signIn, ask } = await setUp();
  const { cookie } = await begin();
  const pending = cookie.replace("sign-in", "session");
  const session = sessionOf(await signIn());
  const flipped = session.replace(/.(?=.{9}$)/, (one) => (one === "A" ? "B" : "A"));
  const plain = session.replace("__Host-", "");
  for (const each of [
    pending,
    flipped,
    plain,
    `${session}; ${session}x`,
    "__Host-leasehold-session=",
  ]) {
    const response = await ask("/v1/whoami", { cookie: each, ...SAME });
    expect(response.status, each.slice(0, 40)).toBe(401);
  }
});

test.each<[string, Record<string, string>, number, number]>([
  ["the console", { "sec-fetch-site": "same-origin" }, 200, 200],
  ["the console, in an older browser", { origin: "https://leases.example" }, 200, 200],
  ["another site", { "sec-fetch-site": "cross-site", origin: "https://evil.example" }, 403, 403],
  ["another name of the site", { "sec-fetch-site": "same-site" }, 403, 403],
  ["the server's own address", { origin: "http://10.0.0.1:4040" }, 403, 403],
  ["no page, by the user", { "sec-fetch-site": "none" }, 200, 403],
  ["nothing that says", {}, 200, 403],
])("a session is for pages of the console: from %s", async (_, headers, read, write) => {
  const { signIn, ask } = await setUp();
  const cookie = sessionOf(await signIn());
  expect((await ask("/v1/whoami", { cookie, ...headers })).status).toBe(read);
  const pause = await ask("/api/generator/stop?reason=r", { cookie, ...headers }, "POST");
  expect(pause.status).toBe(write);
  const out = await ask("/session/sign-out", { cookie, ...headers }, "POST");
  expect(out.status).toBe(write === 200 ? 204 : 403);
});

test("a sign-out deletes the cookie", async () => {
  const { ask } = await setUp();
  const response = await ask("/session/sign-out", SAME, "POST");
  expect(response.headers.getSetCookie()).toEqual([
    "__Host-leasehold-session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure",
  ]);
});

test("a key or a token in a header counts before the session", async () => {
  const { signIn, ask, published } = await setUp();
  const cookie = sessionOf(await signIn());
  const who = async (authorization: string) => {
    const response = await ask("/v1/whoami", { cookie, authorization, ...SAME });
    return [response.status, ((await response.json()) as { actor?: string }).actor];
  };
  const token = await published.sign({ sub: "grace", groups: ["admins"] });
  expect(await who(`Bearer ${token}`)).toEqual([200, "oidc:grace"]);
  expect(await who(`Bearer lh_${"0".repeat(12)}_${"0".repeat(32)}`)).toEqual([401, undefined]);
  // Those of a proxy.
  expect(await who("Basic eA==")).toEqual([200, "oidc:ada"]);
});

test("without a public URL, only browsers of this machine sign in, and their cookies need no TLS", async () => {
  const { ask, app } = await setUp({ publicUrl: undefined });
  const response = await ask("/session/sign-in");
  expect(response.status).toBe(403);
  const local = await app.fetch(new Request("http://127.0.0.1:4040/base/session/sign-in"));
  const target = new URL(local.headers.get("location") ?? "");
  expect(target.searchParams.get("redirect_uri")).toBe(
    "http://127.0.0.1:4040/base/session/callback",
  );
  expect(local.headers.getSetCookie()[0]).toMatch(/^leasehold-sign-in=.*Max-Age=600$/);
});

/** The issuer refuses each code, but not before the returned function is called. */
function keepWaiting(published: Awaited<ReturnType<typeof setUp>>["published"]): () => void {
  let answer = () => {};
  const waits = new Promise<void>((resolve) => (answer = resolve));
  published.tokens = async () => {
    await waits;
    return { error: "invalid_grant" };
  };
  return () => answer();
}

test("few codes are exchanged at once", async () => {
  const { begin, ask, published } = await setUp();
  const { target, cookie } = await begin();
  const answer = keepWaiting(published);
  const path = `/session/callback?code=c&state=${target.searchParams.get("state")}`;
  const statuses: number[] = [];
  const all = Array.from({ length: 30 }, async () => {
    statuses.push((await ask(path, { cookie })).status);
  });
  await expect.poll(() => statuses).toEqual(Array.from({ length: 10 }, () => 429));
  answer();
  await Promise.all(all);
  expect(statuses.slice(10)).toEqual(Array.from({ length: 20 }, () => 303));
});

test("an address that sends invented codes leaves room for sign-ins of others", async () => {
  const { begin, app, published } = await setUp();
  const { target, cookie } = await begin();
  const answer = keepWaiting(published);
  const path = `/session/callback?code=c&state=${target.searchParams.get("state")}`;
  const url = `http://10.0.0.1:4040/base${path}`;
  const from = async (remoteAddress: string) => {
    const request = new Request(url, { headers: { cookie } });
    return (await app.fetch(request, { remoteAddress })).status;
  };
  const refused: number[] = [];
  const invented = Array.from({ length: 30 }, async (_, at) => {
    // All of one network.
    const status = await from(`2001:db8:0:1::${at.toString(16)}`);
    if (status === 429) refused.push(status);
    return status;
  });
  await expect.poll(() => refused.length).toBe(20);
  const other = from("192.0.2.7");
  answer();
  expect(await other).toBe(303);
  await Promise.all(invented);
});

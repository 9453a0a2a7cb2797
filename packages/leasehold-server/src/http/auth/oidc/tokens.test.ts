/** Which tokens of an issuer are accepted, and what its keys cost it. */
import { manualEnv } from "leasehold/testing";
// Loaded before a test moves the clock.
import "jose";
import "openid-client";
import { expect, test } from "vitest";
import {
  AUDIENCE,
  fakeIssuer,
  ISSUER,
  signingKey,
} from "../../../../../../tests/support/server/fake-issuer.js";
import { Issuer } from "./issuer.js";
import { Tokens } from "./tokens.js";

async function setUp() {
  const logged: { event?: string }[] = [];
  const log = (fields: object) => void logged.push(fields);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const published = await fakeIssuer(() => env.clock.wall());
  const issuer = new Issuer({ issuer: ISSUER, fetch: published.fetch }, env);
  const tokens = new Tokens(issuer, { audience: AUDIENCE, leewayMs: 5_000 }, env);
  const seconds = () => Math.floor(env.clock.wall() / 1_000);
  return { env, published, tokens, seconds, logged, issuer };
}

const refused = (detail: string) =>
  expect.objectContaining({ code: "UNAUTHENTICATED", message: expect.stringContaining(detail) });

test("a token has claims, a subject and an end", async () => {
  const { published, tokens, seconds } = await setUp();
  const verified = await tokens.verify(await published.sign({ groups: ["a"] }));
  expect(verified).toMatchObject({ subject: "ada", claims: { groups: ["a"] } });
  expect(verified.untilMs).toBe((seconds() + 300) * 1_000 + 5_000);
});

test.each<[string, Record<string, unknown>, string]>([
  ["of another issuer", { iss: "https://evil.example" }, "another issuer"],
  ["of no issuer", { iss: undefined }, "another issuer"],
  ["for another audience", { aud: "others" }, "another audience"],
  ["for none", { aud: undefined }, "another audience"],
  ["for a list without ours", { aud: ["a", "b"] }, "another audience"],
  ["without an end", { exp: undefined }, "when it expires"],
  ["with an end that is no number", { exp: "never" }, "when it expires"],
  ["without a subject", { sub: undefined }, "who has it"],
  ["with an empty subject", { sub: "" }, "1 to 255"],
  ["with control characters", { sub: "ada\n" }, "1 to 255"],
  ["bound to a key of its client", { cnf: { jkt: "x" } }, "bound to a key"],
])("a token %s is refused", async (_, claims, detail) => {
  const { published, tokens } = await setUp();
  await expect(tokens.verify(await published.sign(claims))).rejects.toEqual(refused(detail));
});

test("times count by our clock, give or take the leeway", async () => {
  const { published, tokens, seconds, env } = await setUp();
  const now = seconds();
  for (const [claims, isGood] of [
    [{ exp: now - 4 }, true],
    [{ exp: now - 6 }, false],
    [{ nbf: now + 4 }, true],
    [{ nbf: now + 6 }, false],
    [{ iat: now + 4 }, true],
    [{ iat: now + 6 }, false],
  ] as const) {
    const outcome = tokens.verify(await published.sign(claims)).then(
      () => true,
      () => false,
    );
    expect([claims, await outcome]).toEqual([claims, isGood]);
  }
  // Also one that was good before.
  const short = await published.sign({ exp: now + 10 });
  await tokens.verify(short);
  await env.clock.advance(14_000);
  await tokens.verify(short);
  await env.clock.advance(1_000);
  await expect(tokens.verify(short)).rejects.toEqual(refused("has expired"));
});

test("only signatures of the issuer's keys count", async () => {
  const { published, tokens } = await setUp();
  const other = await signingKey("first");
  const good = await published.sign();
  const [head = "", body = "", signature = ""] = good.split(".");
  const forged = btoa(JSON.stringify({ ...JSON.parse(atob(body)), sub: "eve" })).replace(/=+$/, "");
  const none = btoa('{"alg":"none","typ":"JWT"}').replace(/=+$/, "");
  const embedded = await published.sign(
    {},
    { key: other.privateKey, header: { jwk: other.jwk, jku: "https://evil.example/keys" } },
  );
  const secret = new TextEncoder().encode(await published.pem());
  const shared = await published.sign({}, { key: secret, header: { alg: "HS256" } });
  const critical = await published.sign({}, { header: { crit: ["b64"], b64: true } });
  for (const [text, detail] of [
    [await published.sign({}, { key: other.privateKey }), "signature"],
    [embedded, "signature"],
    [`${head}.${forged}.${signature}`, "signature"],
    [`${none}.${body}.`, "algorithm"],
    [`${none}.${body}.${signature}`, "algorithm"],
    [shared, "algorithm"],
    [`${head}.${body}.`, "signature"],
    ["a.b.c", "cannot be read"],
    [`${head}.${body}.${"x".repeat(20_000)}`, "too long"],
  ] as const) {
    await expect(tokens.verify(text), text.slice(0, 40)).rejects.toEqual(refused(detail));
  }
  await tokens.verify(critical).catch((error: unknown) => {
    expect(error).toMatchObject({ code: "UNAUTHENTICATED" });
  });
  expect(published.asked.filter((url) => url.includes("evil"))).toEqual([]);
});

test("a shared secret among the keys signs nothing", async () => {
  const { published, tokens } = await setUp();
  const secret = new Uint8Array(32).fill(7);
  const k = btoa(String.fromCharCode(...secret))
    .replaceAll("+", "-")
    .replaceAll("/", "_");
  const jwk = { kty: "oct", k: k.replace(/=+$/, ""), kid: "shared", alg: "HS256" };
  published.jwks = { keys: [published.key.jwk, jwk] };
  const token = await published.sign({}, { key: secret, header: { alg: "HS256", kid: "shared" } });
  await expect(tokens.verify(token)).rejects.toEqual(refused("algorithm"));
});

test.each([
  ["at+jwt", true],
  ["application/at+jwt", true],
  ["JWT", true],
  [undefined, true],
  ["logout+jwt", false],
  ["dpop+jwt", false],
  ["secevent+jwt", false],
])("of the type %s: %s", async (typ, isGood) => {
  const { published, tokens } = await setUp();
  const verifying = tokens.verify(await published.sign({}, { header: { typ } as object }));
  if (isGood) expect(await verifying).toMatchObject({ subject: "ada" });
  else await expect(verifying).rejects.toEqual(refused("another type"));
});

test("a refusal says nothing of the token", async () => {
  const { published, tokens } = await setUp();
  const token = await published.sign({ aud: "secret-audience", sub: "secret-subject" });
  const error = await tokens.verify(token).catch((caught: unknown) => caught);
  expect(JSON.stringify([error, String(error)])).not.toContain("secret");
});

test("keys are read once, and again after five minutes in the background", async () => {
  const { published, tokens, env } = await setUp();
  for (let times = 0; times < 20; times += 1) await tokens.verify(await published.sign({ times }));
  expect(published.asked).toHaveLength(2);
  await env.clock.advance(300_000);
  await tokens.verify(await published.sign());
  await env.clock.advance(1);
  expect(published.asked).toHaveLength(4);
});

test("a new key is read when the first token of it arrives, and the old one ends", async () => {
  const { published, tokens, env } = await setUp();
  const old = await published.sign();
  await tokens.verify(old);
  const second = await signingKey("second");
  published.jwks = { keys: [second.jwk] };
  await env.clock.advance(10_000);
  const token = await published.sign({}, { key: second.privateKey, header: { kid: "second" } });
  expect(await tokens.verify(token)).toMatchObject({ subject: "ada" });
  await env.clock.advance(5_000);
  await expect(tokens.verify(old)).rejects.toEqual(refused("no key of the issuer"));
});

test("invented keys cost the issuer a read every five seconds, and a new key is not refused meanwhile", async () => {
  const { published, tokens, env } = await setUp();
  const codes = new Map<string, number>();
  const other = await signingKey("other");
  for (let times = 0; times < 80; times += 1) {
    const header = { kid: `invented-${times}` };
    const token = await published.sign({}, { key: other.privateKey, header });
    const error = await tokens.verify(token).catch((caught: { code: string }) => caught);
    const { code } = error as { code: string };
    codes.set(code, (codes.get(code) ?? 0) + 1);
    await env.clock.advance(100);
  }
  // In 8 s: at the first token, and at most every 5 s after it.
  expect(published.asked.length / 2).toBeLessThanOrEqual(3);
  expect(codes.get("STORE_UNAVAILABLE")).toBeGreaterThan(70);
  const second = await signingKey("second");
  published.jwks = { keys: [published.key.jwk, second.jwk] };
  const token = await published.sign({}, { key: second.privateKey, header: { kid: "second" } });
  const first = await tokens.verify(token).catch((caught: unknown) => caught);
  expect(first).toMatchObject({
    code: "STORE_UNAVAILABLE",
    init: { headers: { "retry-after": expect.stringMatching(/^[1-5]$/) } },
  });
  await env.clock.advance(5_000);
  expect(await tokens.verify(token)).toMatchObject({ subject: "ada" });
});

test("while the issuer is down, known keys count for a day", async () => {
  const { published, tokens, env, logged } = await setUp();
  await tokens.verify(await published.sign());
  published.isDown = true;
  for (let hours = 0; hours < 23; hours += 1) {
    await env.clock.advance(3_600_000);
    await tokens.verify(await published.sign());
  }
  await env.clock.advance(3_600_000);
  await expect(tokens.verify(await published.sign())).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
  });
  expect(logged.filter(({ event }) => event === "issuer_unavailable")).toHaveLength(1);
  published.isDown = false;
  await env.clock.advance(5_000);
  await tokens.verify(await published.sign());
  expect(logged.filter(({ event }) => event === "issuer_available")).toHaveLength(1);
});

test("an issuer that hangs is given up after 5 s, and other requests share the wait", async () => {
  const { env } = await setUp();
  let asked = 0;
  const fetch = () => {
    asked += 1;
    return new Promise<Response>(() => {});
  };
  const issuer = new Issuer({ issuer: ISSUER, fetch }, env);
  const reads = [issuer.published(), issuer.published()].map((read) =>
    read.catch((error: { code: string }) => error.code),
  );
  await env.clock.advance(5_000);
  expect(await Promise.all(reads)).toEqual(["STORE_UNAVAILABLE", "STORE_UNAVAILABLE"]);
  expect(asked).toBe(1);
});

test.each<[string, Record<string, unknown>]>([
  ["another issuer", { issuer: "https://evil.example" }],
  ["keys without TLS", { jwks_uri: "http://id.example/keys" }],
  ["a token endpoint without TLS", { token_endpoint: "http://id.example/token" }],
])("metadata that names %s is not used", async (_, change) => {
  const { published, tokens } = await setUp();
  Object.assign(published.metadata, change);
  await expect(tokens.verify(await published.sign())).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
  });
});

test("an answer that is too large is not read", async () => {
  const { env } = await setUp();
  const fetch = async () => new Response(" ".repeat(600_000));
  const issuer = new Issuer({ issuer: ISSUER, fetch }, env);
  await expect(issuer.published()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
});

import { StoreUnavailableError } from "leasehold";
import type { ApiKeyRecord, ApiKeyStore } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { newApiKeyText } from "../../../../leasehold/src/control/index.js";
import type { ProblemError } from "../problems.js";
import { type Auth, Authenticator } from "./authenticate.js";
import type { Caller } from "./caller.js";

const ANYONE: Caller = {
  namespace: "default",
  role: "admin",
  prefixes: [""],
  actor: "anyone",
  keyId: null,
};

/** A key store that the test controls, with a count of its reads. */
function setUp(auth: Auth = "keys", hosts?: readonly string[]) {
  const logged: object[] = [];
  const log = (fields: object) => void logged.push(fields);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const records = new Map<string, ApiKeyRecord>();
  const asked: string[] = [];
  const state = { fails: false, existed: false, waits: Promise.resolve() };
  const store: ApiKeyStore = {
    async find(id) {
      asked.push(id);
      // As in a database, a read returns the state of its beginning, however late its answer arrives.
      const record = records.get(id) ?? null;
      await state.waits;
      if (state.fails) throw new StoreUnavailableError("unavailable", { outcome: "none" });
      return record;
    },
    list: () => Promise.reject(new Error("list is not called")),
    collect: () => Promise.reject(new Error("collect is not called")),
    noteUsed: () => Promise.reject(new Error("noteUsed is not called")),
    async any() {
      if (state.fails) throw new StoreUnavailableError("unavailable", { outcome: "none" });
      return records.size > 0;
    },
    async existed() {
      if (state.fails) throw new StoreUnavailableError("unavailable", { outcome: "none" });
      return state.existed || records.size > 0;
    },
  };
  const newAuthenticator = () =>
    new Authenticator({ auth, keys: store, anyone: ANYONE, hosts }, env);
  const authenticator = newAuthenticator();
  const add = (change: Partial<ApiKeyRecord> = {}) => {
    const { id, text, digest } = newApiKeyText(env.random);
    const record: ApiKeyRecord = {
      id,
      digest,
      namespace: "a",
      name: "n",
      role: "viewer",
      prefixes: [""],
      createdAt: "",
      expiresAt: null,
      remainingMs: null,
      revoked: false,
      lastUsedAt: null,
      queues: [],
      ...change,
    };
    records.set(id, record);
    return { id, text, revoke: () => records.set(id, { ...record, revoked: true }) };
  };
  const come = (authorization: string | null, keeps = false, remoteAddress = "127.0.0.1") =>
    authenticator.callerOf(
      new Request("http://localhost", { headers: authorization === null ? {} : { authorization } }),
      keeps,
      remoteAddress,
    );
  return { env, records, asked, state, authenticator, newAuthenticator, add, come, logged };
}

const refused = { code: "UNAUTHENTICATED" };

test("a key determines namespace, role, prefixes and actor", async () => {
  const { add, come } = setUp();
  const { id, text } = add({ namespace: "t", role: "holder", prefixes: ["p/"] });
  const caller = { namespace: "t", role: "holder", prefixes: ["p/"], queues: [], keyId: id };
  expect(await come(`Bearer ${text}`)).toEqual({ ...caller, actor: `key:${id}` });
  expect(await come(`bearer  ${text} `)).toMatchObject(caller);
});

test.each([
  ["nothing", () => null],
  ["another scheme", (text: string) => `Basic ${btoa(`${text}:`)}`],
  ["no scheme", (text: string) => text],
  ["the id alone", (text: string) => `Bearer ${text.slice(0, -39)}`],
  [
    "another checksum",
    (text: string) => `Bearer ${text.slice(0, -1)}${text.endsWith("0") ? 1 : 0}`,
  ],
  ["another secret", (text: string) => `Bearer ${text.slice(0, -7)}${text.at(-7) === "0" ? 1 : 0}`],
  ["another id", (text: string) => `Bearer lh_${"0".repeat(12)}${text.slice(-39, -6)}`],
  ["two keys", (text: string) => `Bearer ${text}, Bearer ${text}`],
  ["something long", () => `Bearer ${"x".repeat(10_000)}`],
])("%s is refused, and the refusal does not repeat it", async (_, header) => {
  const { add, come } = setUp();
  const { text } = add();
  const error = await come(header(text)).catch((caught: unknown) => caught);
  expect(error).toMatchObject(refused);
  expect(JSON.stringify([error, String(error)])).not.toContain(text.slice(-32));
});

test("a key is read periodically, and concurrent requests share a read", async () => {
  const { add, come, asked, env } = setUp();
  const { text } = add();
  await Promise.all(Array.from({ length: 20 }, () => come(`Bearer ${text}`)));
  expect(asked).toHaveLength(1);
  await env.clock.advance(2_000);
  await come(`Bearer ${text}`);
  expect(asked).toHaveLength(1);
  // Refreshed while it still counts: requests do not wait.
  await env.clock.advance(1_000);
  await come(`Bearer ${text}`);
  expect(asked).toHaveLength(2);
});

test("a revocation elsewhere takes effect within 5 s, one through this instance at once", async () => {
  const { add, come, authenticator, env } = setUp();
  const [elsewhere, here] = [add(), add()];
  await Promise.all([elsewhere, here].map(({ text }) => come(`Bearer ${text}`)));
  const caller = await come(`Bearer ${elsewhere.text}`);
  elsewhere.revoke();
  here.revoke();
  authenticator.forget(here.id);
  await expect(come(`Bearer ${here.text}`)).rejects.toMatchObject(refused);
  expect(await authenticator.isStillValid(caller)).toBe(true);
  await env.clock.advance(5_000);
  await expect(come(`Bearer ${elsewhere.text}`)).rejects.toMatchObject(refused);
  expect(await authenticator.isStillValid(caller)).toBe(false);
});

test("a read from before a key's change is ignored after it", async () => {
  const { add, come, authenticator, state } = setUp();
  const key = add();
  let answer = () => {};
  state.waits = new Promise<void>((resolve) => (answer = resolve));
  const first = come(`Bearer ${key.text}`);
  key.revoke();
  authenticator.forget(key.id);
  answer();
  await first.catch(() => {});
  await expect(come(`Bearer ${key.text}`)).rejects.toMatchObject(refused);
});

test("a key expires by the store's own count, regardless of when it was read", async () => {
  const { add, come, env, asked } = setUp();
  const { text } = add({ remainingMs: 2_000 });
  await come(`Bearer ${text}`);
  await env.clock.advance(1_999);
  await come(`Bearer ${text}`);
  await env.clock.advance(1);
  await expect(come(`Bearer ${text}`)).rejects.toMatchObject(refused);
  expect(asked).toHaveLength(1);
});

test("a caller without a valid key does not learn what the store reported", async () => {
  const { state, come } = setUp();
  state.fails = true;
  const error = await come(`Bearer lh_${"0".repeat(12)}_${"0".repeat(32)}`).catch((error) => error);
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(error.message).not.toContain("unavailable; nothing has changed");
  expect(error.cause).toBeInstanceOf(StoreUnavailableError);
});

test("cached keys count for 5 s while the store is unavailable; then requests fail", async () => {
  const { add, come, state, env, authenticator } = setUp();
  const { text } = add();
  const caller = await come(`Bearer ${text}`);
  state.fails = true;
  await env.clock.advance(4_999);
  await come(`Bearer ${text}`);
  await env.clock.advance(1);
  await expect(come(`Bearer ${text}`)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(await authenticator.isStillValid(caller)).toBe(false);
  state.fails = false;
  await come(`Bearer ${text}`);
});

test("renewals may use keys read in the last ten minutes while the store is unavailable", async () => {
  const { add, come, state, env } = setUp();
  const { text } = add();
  await come(`Bearer ${text}`);
  await env.clock.advance(60_000);
  state.fails = true;
  await come(`Bearer ${text}`, true);
  state.fails = false;
  // Requests do not wait long for a store that hangs either.
  state.waits = new Promise(() => {});
  await env.clock.advance(539_000);
  let known = false;
  const coming = come(`Bearer ${text}`, true).then(() => {
    known = true;
  });
  await env.clock.advance(250);
  expect(known).toBe(true);
  await coming;
  await env.clock.advance(1_000);
  const late = come(`Bearer ${text}`, true).catch((error: unknown) => error);
  await env.clock.advance(5_000);
  expect(await late).toMatchObject({ code: "STORE_UNAVAILABLE" });
});

test("a renewal with a key that was revoked meanwhile is refused", async () => {
  const { add, come, env } = setUp();
  const { text, revoke } = add();
  await come(`Bearer ${text}`, true);
  revoke();
  await env.clock.advance(60_000);
  await expect(come(`Bearer ${text}`, true)).rejects.toMatchObject(refused);
});

test.each([
  ["http://localhost:4040/v1/locks", null, true],
  ["http://[::1]/v1/locks", "http://localhost:3000", true],
  ["http://rebound.example/v1/locks", null, false],
  ["http://localhost/v1/locks", "https://page.example", false],
  ["http://localhost/v1/locks", "null", false],
])("without keys, %s from the origin %s: %s", async (url, origin, isAnswered) => {
  const { authenticator } = setUp("none", ["localhost", "[::1]"]);
  const request = new Request(url, { headers: origin === null ? {} : { origin } });
  const coming = authenticator.callerOf(request, false);
  if (isAnswered) expect(await coming).toBe(ANYONE);
  else {
    const message = expect.stringContaining("must use localhost, [::1], not");
    await expect(coming).rejects.toMatchObject({ code: "FORBIDDEN", message });
  }
});

test("requests do not wait for a store that hangs", async () => {
  const { add, come, state, env } = setUp();
  const { text } = add();
  state.waits = new Promise(() => {});
  const coming = come(`Bearer ${text}`).catch((error: unknown) => error);
  await env.clock.advance(5_000);
  expect(await coming).toMatchObject({ code: "STORE_UNAVAILABLE" });
});

test("guessed ids cause one read each and displace no key that is in use", async () => {
  const { add, come, asked } = setUp();
  const { text } = add();
  await come(`Bearer ${text}`);
  const guess = (n: number) => `Bearer lh_${String(n).padStart(12, "0")}_${"0".repeat(32)}`;
  for (let n = 0; n < 2_000; n += 1) {
    await expect(come(guess(n))).rejects.toMatchObject(refused);
  }
  await expect(come(guess(1_999))).rejects.toMatchObject(refused);
  await come(`Bearer ${text}`);
  expect(asked).toHaveLength(2_001);
});

test("guessed ids do not fill the store's queue and do not block known keys", async () => {
  const { add, come, asked, state, env } = setUp();
  const { text } = add();
  await come(`Bearer ${text}`);
  state.waits = new Promise(() => {});
  const guess = (n: number) => `Bearer lh_${String(n).padStart(12, "0")}_${"0".repeat(32)}`;
  const guesses = Array.from({ length: 150 }, (_, n) =>
    come(guess(n)).catch((error: unknown) => error),
  );
  expect(asked).toHaveLength(101);
  expect(await guesses[149]).toMatchObject({ code: "OVERLOADED" });
  await come(`Bearer ${text}`);
  await env.clock.advance(5_000);
  expect(await guesses[0]).toMatchObject({ code: "STORE_UNAVAILABLE" });
});

test("addresses that guess keys leave room for a new key of another address", async () => {
  const { add, come, state, env } = setUp();
  let answer = () => {};
  state.waits = new Promise<void>((resolve) => (answer = resolve));
  let n = 0;
  const guess = () => `Bearer lh_${String((n += 1)).padStart(12, "0")}_${"0".repeat(32)}`;
  const codes: Promise<string>[] = [];
  const flood = (address: string) => {
    for (let times = 0; times < 300; times += 1) {
      const coming = come(guess(), false, address);
      codes.push(coming.then(String, (error: { code: string }) => error.code));
    }
  };
  flood("192.0.2.1");
  flood("192.0.2.2");
  // One network, whose machines can choose among its addresses.
  for (let host = 1; host <= 4; host += 1) flood(`2001:db8::${host}`);
  const { text } = add();
  const fresh = come(`Bearer ${text}`, false, "192.0.2.3");
  answer();
  expect(await fresh).toMatchObject({ role: "viewer" });
  const found = await Promise.all(codes);
  expect(found.filter((code) => code === "UNAUTHENTICATED")).toHaveLength(175);
  expect(new Set(found)).toEqual(new Set(["UNAUTHENTICATED", "OVERLOADED"]));
  // The room is free again.
  await env.clock.advance(10);
  await expect(come(guess(), false, "192.0.2.1")).rejects.toMatchObject(refused);
});

test.each<[Auth, string, boolean]>([
  ["keys", "none is there yet", false],
  ["keys", "there is one", false],
  ["none", "none is there yet", true],
  ["none", "there is one", true],
])("with auth %s and though %s, a request without a key is admitted: %s", async (...args) => {
  const [auth, when, isAdmitted] = args;
  const { add, come, authenticator, env } = setUp(auth);
  if (when === "there is one") add();
  await env.clock.advance(10_000);
  if (isAdmitted) expect(await come(null)).toBe(ANYONE);
  else await expect(come(null)).rejects.toMatchObject(refused);
  expect(await authenticator.isStillValid(ANYONE)).toBe(isAdmitted);
  // Whether there are keys is of no account.
  expect(env.clock.pendingTimers).toBe(0);
  await authenticator.stop();
});

test.each<[Auth, boolean]>([
  ["ifAny", true],
  ["none", true],
  ["keys", false],
])("with auth %s and no key store, a request without a key is admitted: %s", async (...args) => {
  const [auth, isAdmitted] = args;
  const env = manualEnv();
  const options = { auth, keys: undefined, anyone: ANYONE, hosts: undefined };
  const authenticator = new Authenticator(options, env);
  const come = (headers: Record<string, string>) =>
    authenticator.callerOf(new Request("http://localhost", { headers }), false, "127.0.0.1");
  if (isAdmitted) expect(await come({})).toBe(ANYONE);
  else await expect(come({})).rejects.toMatchObject(refused);
  const { text } = newApiKeyText(env.random);
  // Its holder believes in a tenant and a role, which this server does not know.
  await expect(come({ authorization: `Bearer ${text}` })).rejects.toMatchObject(refused);
  expect(env.clock.pendingTimers).toBe(0);
});

test("a refusal names an error only to those who sent a credential", async () => {
  const { come } = setUp();
  const challengeTo = async (authorization: string | null) => {
    const error = (await come(authorization).catch((caught: unknown) => caught)) as ProblemError;
    return [error.init.headers?.["www-authenticate"], error.message.slice(0, 34)];
  };
  expect(await challengeTo(null)).toEqual([
    'Bearer realm="leasehold"',
    "the request has no API key: send t",
  ]);
  const invalid = 'Bearer realm="leasehold", error="invalid_token"';
  expect(await challengeTo("Basic x")).toEqual([invalid, "the Authorization header has no AP"]);
  const unknown = `Bearer lh_${"0".repeat(12)}_${"0".repeat(32)}`;
  expect(await challengeTo(unknown)).toEqual([invalid, "no such key"]);
  const trailing = await challengeTo(`Bearer lh_${"0".repeat(12)}_${"0".repeat(32)} x`);
  expect(trailing).toEqual([invalid, "the Authorization header has no AP"]);
});

test("a key that has ended or is no more is not valid any longer", async () => {
  const { add, come, records, authenticator, env } = setUp();
  const key = add();
  const caller = await come(`Bearer ${key.text}`);
  records.delete(key.id);
  await env.clock.advance(5_000);
  await expect(authenticator.checkAgain(caller)).rejects.toMatchObject(refused);
  expect(await authenticator.isStillValid(caller)).toBe(false);
});

test("an id that was unknown is read again after 5 s", async () => {
  const { come, add, records, asked, env } = setUp();
  await env.clock.advance(60_000);
  const { id, text } = add();
  const record = records.get(id)!;
  records.clear();
  await expect(come(`Bearer ${text}`)).rejects.toMatchObject(refused);
  records.set(id, record);
  await env.clock.advance(4_999);
  await expect(come(`Bearer ${text}`)).rejects.toMatchObject(refused);
  expect(asked).toHaveLength(1);
  await env.clock.advance(1);
  await come(`Bearer ${text}`);
  expect(asked).toHaveLength(2);
});

test("the age of what is known counts from its read", async () => {
  const { add, come, asked, env } = setUp();
  await env.clock.advance(60_000);
  const { text } = add({ remainingMs: 8_000 });
  await come(`Bearer ${text}`);
  await env.clock.advance(2_499);
  await come(`Bearer ${text}`);
  expect(asked).toHaveLength(1);
  await env.clock.advance(1);
  await come(`Bearer ${text}`);
  expect(asked).toHaveLength(2);
});

test("a renewal uses no record older than ten minutes", async () => {
  const { add, come, state, env } = setUp();
  const { text } = add();
  await come(`Bearer ${text}`);
  state.fails = true;
  await env.clock.advance(599_999);
  await come(`Bearer ${text}`, true);
  await env.clock.advance(1);
  await expect(come(`Bearer ${text}`, true)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
});

test("known keys and keys that are being read do not count as guesses", async () => {
  const { add, come, state, env } = setUp();
  const known = add();
  await come(`Bearer ${known.text}`);
  await env.clock.advance(6_000);
  let answer = () => {};
  state.waits = new Promise<void>((resolve) => (answer = resolve));
  const other = add();
  const first = come(`Bearer ${other.text}`);
  const guess = (n: number) => `Bearer lh_${String(n).padStart(12, "0")}_${"0".repeat(32)}`;
  const guesses = Array.from({ length: 99 }, (_, n) => come(guess(n)).catch(() => "refused"));
  const overloaded = expect.objectContaining({ code: "OVERLOADED" });
  await expect(come(guess(99))).rejects.toEqual(overloaded);
  const more = [come(`Bearer ${other.text}`), come(`Bearer ${known.text}`)];
  answer();
  for (const caller of await Promise.all([first, ...more])) expect(caller.role).toBe("viewer");
  await Promise.all(guesses);
});

test("requests need no key until the first one exists, and need one from then on", async () => {
  const { add, come, records, authenticator, env, logged } = setUp("ifAny");
  expect(await come(null)).toBe(ANYONE);
  expect(await authenticator.isStillValid(ANYONE)).toBe(true);
  const { text } = add();
  await env.clock.advance(2_500);
  await expect(come(null)).rejects.toMatchObject(refused);
  expect(await authenticator.isStillValid(ANYONE)).toBe(false);
  await come(`Bearer ${text}`);
  // The last key is deleted: requests still need one.
  records.clear();
  await env.clock.advance(60_000);
  await expect(come(null)).rejects.toMatchObject(refused);
  // Said once.
  expect(logged).toEqual([{ event: "keys_required" }]);
  await authenticator.stop();
  expect(env.clock.pendingTimers).toBe(0);
});

test("requests need a key for good, also from a server that starts after the last key has ended", async () => {
  const { state, newAuthenticator } = setUp("ifAny");
  // All keys were collected.
  state.existed = true;
  const restarted = newAuthenticator();
  await expect(restarted.callerOf(new Request("http://localhost"), false)).rejects.toMatchObject(
    refused,
  );
  await restarted.stop();
});

test.each<Auth>(["none", "ifAny"])(
  "with %s, a key is never ignored: a known one gives its tenant, another is refused",
  async (auth) => {
    const { add, come } = setUp(auth);
    const unknown = `Bearer lh_${"0".repeat(12)}_${"0".repeat(32)}`;
    const remedy = { ...refused, message: expect.stringMatching(/Send none, or create one/) };
    await expect(come(unknown)).rejects.toMatchObject(remedy);
    await expect(come("Bearer lh_typo")).rejects.toMatchObject(remedy);
    expect(await come(null)).toBe(ANYONE);
    const { id, text } = add({ namespace: "t2" });
    expect(await come(`Bearer ${text}`)).toMatchObject({ namespace: "t2", keyId: id });
    const ended = add();
    ended.revoke();
    await expect(come(`Bearer ${ended.text}`)).rejects.toMatchObject(refused);
  },
);

test("without keys, credentials of a proxy are ignored; a token is only where none can be a key", async () => {
  const open = setUp("none");
  expect(await open.come("Bearer eyJhbGciOi.e30.x")).toBe(ANYONE);
  expect(await open.come(`Basic ${btoa("a:b")}`)).toBe(ANYONE);
  const { come } = setUp("ifAny");
  await expect(come("Bearer eyJhbGciOi.e30.x")).rejects.toMatchObject(refused);
  expect(await come(`Basic ${btoa("a:b")}`)).toBe(ANYONE);
});

test("requests wait until it is known whether there are keys", async () => {
  const { come, state } = setUp("ifAny");
  state.fails = true;
  await expect(come(null)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  state.fails = false;
  expect(await come(null)).toBe(ANYONE);
});

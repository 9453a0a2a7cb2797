/** When a client asks for its token, and what it does without one. */
import { afterEach, expect, test } from "vitest";
import { newLeaseId, systemRandom } from "../../env/index.js";
import type { LeaseholdError } from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import { type HttpOptions, http } from "./index.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const CAPABILITIES = {
  namespace: "a",
  leases: { ttl: { minMs: 1_000, maxMs: 3_600_000 }, watch: true, tokens: true },
  tasks: { ttl: { minMs: 1_000, maxMs: 3_600_000 }, watch: true },
};

/** A JSON Web Token that says when it ends. */
function jwt(name: string, untilMs: number): string {
  const payload = btoa(JSON.stringify({ sub: name, exp: untilMs / 1_000, ä: 1 }));
  return `e30.${payload.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}.${name}`;
}

/** A server that accepts the tokens for which `accepts` is true. */
function setUp(accepts: (token: string) => boolean = () => true) {
  const env = manualEnv();
  const sent: string[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const token = (new Headers(init?.headers).get("authorization") ?? "").replace("Bearer ", "");
    sent.push(token.split(".").at(-1) ?? "");
    if (!accepts(token)) {
      const problem = { code: "UNAUTHENTICATED", detail: "the token has expired" };
      return new Response(JSON.stringify(problem), { status: 401 });
    }
    const body = String(input).endsWith("/v1/capabilities")
      ? CAPABILITIES
      : [{ status: "renewed", token: 1, remainingMs: 30_000 }];
    return new Response(JSON.stringify(body));
  };
  const open = async (token: NonNullable<HttpOptions["token"]>) => {
    const stores = await http({ url: "http://server", token, fetch }).open(env);
    closing.push(() => stores.close());
    const renew = async () => {
      const request = { leaseId: newLeaseId(systemRandom), ttlMs: 30_000 };
      const [outcome] = await stores.leases.renew([{ namespace: "a", resource: "r", ...request }]);
      return outcome;
    };
    return { stores, renew };
  };
  const nowMs = () => env.clock.wall();
  return { env, sent, open, nowMs };
}

test("a token that is text is sent with each request", async () => {
  const { open, sent } = setUp();
  const { renew } = await open("e30.e30.fixed");
  expect(await renew()).toMatchObject({ status: "renewed" });
  expect(sent).toEqual(["fixed", "fixed"]);
});

test("concurrent calls share one call of the function", async () => {
  const { open, sent, nowMs } = setUp();
  let asked = 0;
  const { renew } = await open(async () => jwt(`t${(asked += 1)}`, nowMs() + 600_000));
  await Promise.all(Array.from({ length: 10 }, renew));
  expect(asked).toBe(1);
  expect(new Set(sent)).toEqual(new Set(["t1"]));
});

test("the function is asked in time before the token ends, and no call waits for it", async () => {
  const { open, sent, env, nowMs } = setUp();
  let asked = 0;
  let answer = () => {};
  const { renew } = await open(async () => {
    asked += 1;
    if (asked > 1) await new Promise<void>((resolve) => (answer = resolve));
    return jwt(`t${asked}`, nowMs() + 600_000);
  });
  await env.clock.advance(539_999);
  await renew();
  expect(asked).toBe(1);
  await env.clock.advance(1);
  await renew();
  await renew();
  expect([asked, sent.at(-1)]).toEqual([2, "t1"]);
  answer();
  await env.clock.advance(1);
  await renew();
  expect(sent.at(-1)).toBe("t2");
});

test("of a short token, the last third is left", async () => {
  const { open, env, nowMs } = setUp();
  let asked = 0;
  const { renew } = await open(() => jwt(`t${(asked += 1)}`, nowMs() + 9_000));
  await env.clock.advance(5_999);
  await renew();
  expect(asked).toBe(1);
  await env.clock.advance(1);
  await renew();
  expect(asked).toBe(2);
});

test("a function that returns the same token is asked once a second", async () => {
  const { open, env, nowMs } = setUp();
  let asked = 0;
  const same = jwt("same", nowMs() + 9_000);
  const { renew } = await open(() => {
    asked += 1;
    return same;
  });
  await env.clock.advance(6_000);
  for (let times = 0; times < 20; times += 1) {
    await renew();
    await env.clock.advance(100);
  }
  expect(asked).toBeLessThanOrEqual(4);
});

test("a call waits for a new token once the old one has ended", async () => {
  const { open, env, sent, nowMs } = setUp();
  let asked = 0;
  const { renew } = await open(async () => jwt(`t${(asked += 1)}`, nowMs() + 9_000));
  await env.clock.advance(9_000);
  await renew();
  expect(sent.at(-1)).toBe("t2");
});

test("after 401 the function is asked once more, and the request is sent again", async () => {
  let good = "t1";
  const { open, sent } = setUp((token) => token.endsWith(good));
  let asked = 0;
  const { renew } = await open(() => `e30.e30.t${(asked += 1)}`);
  good = "t2";
  expect(await renew()).toMatchObject({ status: "renewed" });
  expect(sent).toEqual(["t1", "t1", "t2"]);
  good = "none";
  const outcome = await renew().catch((error: LeaseholdError) => error);
  expect(outcome).toMatchObject({ code: "STORE_MISCONFIGURED" });
  expect(sent).toEqual(["t1", "t1", "t2", "t2", "t3"]);
});

test("concurrent calls that are refused share one new token", async () => {
  let good = "t1";
  const { open } = setUp((token) => token.endsWith(good));
  let asked = 0;
  const { renew } = await open(async () => `e30.e30.t${(asked += 1)}`);
  good = "t2";
  const outcomes = await Promise.all(Array.from({ length: 10 }, renew));
  expect(outcomes.every((outcome) => outcome?.status === "renewed")).toBe(true);
  expect(asked).toBe(2);
});

test("a function that fails makes calls fail, which may be repeated; a good token goes on", async () => {
  const { open, env, sent, nowMs } = setUp();
  let fails = false;
  let asked = 0;
  const { renew } = await open(async () => {
    asked += 1;
    if (fails) throw new Error("the issuer is down");
    return jwt(`t${asked}`, nowMs() + 9_000);
  });
  fails = true;
  await env.clock.advance(8_000);
  expect(await renew()).toMatchObject({ status: "renewed" });
  await env.clock.advance(1_000);
  const renewing = renew();
  await env.clock.advance(10_000);
  expect(await renewing).toMatchObject({
    status: "failed",
    applied: "no",
    retryable: true,
    error: {
      code: "STORE_UNAVAILABLE",
      message: expect.stringContaining(
        "the function of the option token failed: the issuer is down",
      ),
    },
  });
  fails = false;
  expect(await renew()).toMatchObject({ status: "renewed" });
  expect(sent).not.toContain("");
});

test("a function that hangs takes no longer than the call may", async () => {
  const { open, env, sent, nowMs } = setUp();
  let asked = 0;
  const { renew } = await open(() => {
    asked += 1;
    return asked === 1 ? jwt("t1", nowMs() + 9_000) : new Promise<string>(() => {});
  });
  await env.clock.advance(9_000);
  const renewing = renew();
  await env.clock.advance(30_000);
  expect(await renewing).toMatchObject({
    status: "failed",
    applied: "no",
    error: { message: expect.stringContaining("did not return in the time of the call") },
  });
  expect(sent).toEqual(["t1"]);
});

test.each([undefined, "", "with space", "ä", 7, "x".repeat(16_385)])(
  "a function that returns %s is a mistake",
  async (token) => {
    const { open, sent } = setUp();
    const opening = open((() => token) as () => string);
    await expect(opening).rejects.toMatchObject({ code: "INVALID_OPTION", path: "token" });
    expect(sent).toEqual([]);
  },
);

test.each<[Partial<HttpOptions>, string]>([
  [{ token: "secret token" }, "token"],
  [{ token: "secret", apiKey: "lh_1_2" }, "token"],
  [{ token: () => "secret", url: "http://lh_1_2@server" }, "token"],
  [{ token: 7 as unknown as string }, "token"],
])("rejects %o without quoting it", (options, path) => {
  const make = () => http({ url: "http://server", ...options });
  expect(make).toThrow(expect.objectContaining({ code: "INVALID_OPTION", path }));
  expect(make).not.toThrow(/secret/);
});

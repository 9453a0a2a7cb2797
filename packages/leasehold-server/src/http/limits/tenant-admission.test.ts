/** What each request costs its tenant, and what of a tenant is refused, also through the app. */
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { TEST_LIMITS } from "../../../../../tests/support/server/test-limits.js";
import { memory } from "../../../../leasehold/src/stores/memory/index.js";
import type { Caller } from "../auth/caller.js";
import { createApp } from "../index.js";
import { DEFAULT_LIMITS, type ServerLimits } from "./limits.js";
import { TenantAdmission } from "./tenant-admission.js";

const KIB = 1_024;

const CALLER: Caller = {
  namespace: "a",
  role: "holder",
  prefixes: [""],
  actor: "key:1",
  keyId: "1",
};

function setUp(ratePerSecond: number | null) {
  const env = manualEnv();
  const limits = { ...DEFAULT_LIMITS, ratePerSecond };
  const own = { of: async () => ({ leases: null, tasks: null, ratePerSecond }) };
  const admission = new TenantAdmission(env.clock, limits, own);
  /** How many such requests a tenant may send at once. */
  const sent = async (urgency: "keeps" | "demands", bytes: number, items = 0, caller = CALLER) => {
    const headers = new Headers({ "content-length": `${bytes}` });
    for (let count = 0; count < 2_000; count += 1) {
      try {
        const admitted = await admission.enter({
          caller,
          urgency,
          isScrape: false,
          headers,
        });
        await admitted.begin(items);
        admitted.leave();
      } catch {
        return count;
      }
    }
    return Number.POSITIVE_INFINITY;
  };
  return { env, admission, sent };
}

it.each([
  ["demands", 0, 0, 100],
  ["demands", 4_095, 9, 100],
  // Each costs 1 for itself and 4 for its bytes.
  ["demands", 16_384, 0, 20],
  // Each costs 1 for itself and 9 for its items.
  ["demands", 0, 90, 10],
  ["keeps", 0, 0, 1_000],
  // Each costs 1 for itself, 240 for its bytes and 100 for its items.
  ["keeps", 100_000, 1_000, 3],
] as const)(
  "a tenant may send %s of %i bytes with %i items so often: %i",
  async (urgency, bytes, items, times) => {
    expect(await setUp(100).sent(urgency, bytes, items)).toBe(times);
  },
);

it("a request that the rate of its tenant refuses occupies nothing", async () => {
  const { env, admission } = setUp(1);
  const enter = (caller = CALLER) =>
    admission.enter({
      caller,
      urgency: "demands",
      isScrape: false,
      headers: new Headers(),
    });
  // At most 256 of them may be in flight.
  const answers = Array.from({ length: 300 }, async () => (await enter()).leave());
  const settled = Promise.allSettled(answers);
  await env.clock.advance(60_000);
  const refused = (await settled).filter(({ status }) => status === "rejected");
  expect(refused.length).toBeGreaterThan(290);
  await env.clock.advance(1_000_000);
  for (let second = 0; second < 100; second += 1) {
    await enter();
    await env.clock.advance(1_000);
  }
});

it("a tenant owes what its requests turned out to cost", async () => {
  const { env, sent } = setUp(100);
  // The last one costs 101 and finds 1 token or more: the debt is paid before the next.
  await sent("demands", 0, 1_000);
  await env.clock.advance(1_000);
  expect(await sent("demands", 0)).toBeLessThan(100);
  await env.clock.advance(2_000);
  expect(await sent("demands", 0)).toBe(100);
});

it("all keys of a tenant pay from one bucket, and other tenants from their own", async () => {
  const { sent } = setUp(100);
  expect(await sent("demands", 0)).toBe(100);
  expect(await sent("demands", 0, 0, { ...CALLER, actor: "key:2", keyId: "2" })).toBe(0);
  expect(await sent("keeps", 0, 0, { ...CALLER, actor: "key:2", keyId: "2" })).toBe(1_000);
  expect(await sent("demands", 0, 0, { ...CALLER, namespace: "b" })).toBe(100);
});

it("work that takes long is charged, and none begins while the tenant owes for it", async () => {
  const { env, admission, sent } = setUp(1_000);
  const enter = () =>
    admission.enter({
      caller: CALLER,
      urgency: "demands",
      isScrape: false,
      headers: new Headers(),
    });
  const [first, second] = [await enter(), await enter()];
  await first.measured(() => env.clock.advance(300));
  // It owes 3,000, and had 998 and what came in meanwhile.
  await expect(second.measured(async () => {})).rejects.toMatchObject({
    code: "TOO_MANY_REQUESTS",
    init: { headers: { "retry-after": "2" } },
  });
  const failed = expect(enter()).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" });
  await failed;
  await env.clock.advance(60_000);
  expect(await sent("demands", 0)).toBe(1_000);
});

/** An app's admission without a rate, with these limits. */
function inFlight(limits: Partial<ServerLimits>) {
  const none = { tenantInFlight: null, tenantBodyBytes: null, allBodyBytes: null };
  const env = manualEnv();
  const own = { of: async () => ({ leases: null, tasks: null, ratePerSecond: null }) };
  const admission = new TenantAdmission(env.clock, { ...DEFAULT_LIMITS, ...none, ...limits }, own);
  /** Sends the requests one after the other, and returns what ends those that are admitted. */
  const admitted = async (
    count: number,
    namespace: string | null,
    load: "demands" | "keeps" | "metrics",
    bytes = 0,
  ) => {
    const caller: Caller = {
      ...CALLER,
      namespace: namespace ?? "default",
      ...(namespace === null && { keyId: null }),
    };
    const urgency = load === "metrics" ? "keeps" : load;
    const headers = new Headers({ "content-length": `${bytes}` });
    const left: (() => void)[] = [];
    for (let at = 0; at < count; at += 1) {
      const arriving = { caller, urgency, isScrape: load === "metrics", headers } as const;
      const entered = await admission.enter(arriving).catch((error: Error) => error.message);
      if (typeof entered === "string") continue;
      left.push(() => entered.leave());
    }
    return left;
  };
  return { admission, admitted };
}

it("bounds the requests of each tenant in flight, by what they do", async () => {
  const { admitted } = inFlight({ tenantInFlight: 8 });
  const demands = await admitted(10, "a", "demands");
  expect(demands).toHaveLength(8);
  expect(await admitted(10, "a", "keeps")).toHaveLength(8);
  expect(await admitted(10, "a", "metrics")).toHaveLength(4);
  expect(await admitted(10, "b", "demands")).toHaveLength(8);
  for (const leave of demands.slice(0, 3)) leave();
  expect(await admitted(10, "a", "demands")).toHaveLength(3);
});

it("bounds the bytes of a tenant's bodies, but no small body, and always takes one alone", async () => {
  const { admitted } = inFlight({ tenantBodyBytes: 100 * KIB });
  const large = await admitted(4, "a", "demands", 40 * KIB);
  expect(large).toHaveLength(2);
  expect(await admitted(4, "a", "demands", 16 * KIB)).toHaveLength(4);
  expect(await admitted(4, "a", "keeps", 40 * KIB)).toHaveLength(2);
  expect(await admitted(4, "b", "demands", 400 * KIB)).toHaveLength(1);
  for (const leave of large) leave();
  expect(await admitted(4, "a", "demands", 40 * KIB)).toHaveLength(2);
});

it("bounds the bytes of all bodies, also of callers that cannot be distinguished", async () => {
  const limits = { tenantInFlight: 1, tenantBodyBytes: 1, allBodyBytes: 100 * KIB };
  const { admission, admitted } = inFlight(limits);
  const [first, ...others] = await admitted(10, null, "demands", 30 * KIB);
  expect(others).toHaveLength(2);
  expect(admission.used).toEqual({ bodies: 0.9, answers: 0 });
  expect(await admitted(1, "a", "keeps", 30 * KIB)).toHaveLength(0);
  expect(await admitted(10, null, "demands")).toHaveLength(10);
  first?.();
  expect(await admitted(2, "a", "keeps", 30 * KIB)).toHaveLength(1);
});

it.each<[headers: Record<string, string>, isLarge: boolean]>([
  [{ "content-length": "16384" }, false],
  [{ "content-length": "16385" }, true],
  [{ "content-length": "nonsense" }, true],
  [{ "transfer-encoding": "chunked" }, true],
])("takes a body with %j for a large one: %s", async (headers, isLarge) => {
  const { admission } = setUp(null);
  const arriving = {
    caller: CALLER,
    urgency: "demands",
    isScrape: false,
    headers: new Headers(headers),
  } as const;
  const admitted = await admission.enter(arriving);
  const turns = await turnsOf([() => admitted.arrive()]);
  expect(turns[0] === 0).toBe(!isLarge);
});

it.each([
  ["demands", 40_960, 89],
  // As much as the largest page: some answers have no end.
  ["demands", 100_000_000, 0],
  // Its claims are bounded by themselves.
  ["waits", 40_960, 99],
] as const)("a tenant owes what it has read by %s of %i bytes", async (urgency, bytes, times) => {
  const { admission, sent } = setUp(100);
  const asked = { caller: CALLER, urgency, isScrape: false, headers: new Headers() };
  const admitted = await admission.enter(asked);
  admitted.leave({ unsent: () => 0, bytes: () => bytes, onEnd: (call) => call() });
  expect(await sent("demands", 0)).toBe(times);
});

it("all keys of a tenant together may read the metrics ten times per second", async () => {
  const { env, admission } = setUp(100);
  const scrape = async (namespace: string, keyId: string) => {
    const caller = { ...CALLER, namespace, keyId, actor: `key:${keyId}` };
    const arriving = {
      caller,
      urgency: "keeps",
      isScrape: true,
      headers: new Headers(),
    } as const;
    const entered = await admission.enter(arriving).catch(() => null);
    entered?.leave();
    return entered !== null;
  };
  const admitted = async (namespace: string, keyIds: readonly string[]) => {
    const all: boolean[] = [];
    for (const keyId of keyIds) all.push(await scrape(namespace, keyId));
    return all.filter(Boolean).length;
  };
  const twelve = Array.from({ length: 12 }, (_, n) => `${n % 3}`);
  for (let second = 0; second < 3; second += 1) {
    expect(await admitted("a", twelve)).toBe(10);
    expect(await admitted("b", twelve)).toBe(10);
    await env.clock.advance(1_000);
  }
});

it("no rate counts where there is none, and none without keys", async () => {
  expect(await setUp(null).sent("demands", 16_384)).toBe(Number.POSITIVE_INFINITY);
  const anyone = { ...CALLER, keyId: null } as unknown as typeof CALLER;
  expect(await setUp(1).sent("demands", 16_384, 0, anyone)).toBe(Number.POSITIVE_INFINITY);
});

/** @returns the turn of the event loop in which each request begins that arrives in the same one */
async function turnsOf(begins: readonly (() => Promise<unknown>)[]) {
  let turn = 0;
  let counting = true;
  const count = () => {
    turn += 1;
    if (counting) setImmediate(count);
  };
  setImmediate(count);
  const turns = await Promise.all(begins.map(async (begin) => begin().then(() => turn)));
  counting = false;
  return turns;
}

it("one large request begins in sixteen turns of the event loop, and small ones at once", async () => {
  const { admission } = setUp(null);
  const began = (bytes: number, items: number) => async () => {
    const headers = new Headers({ "content-length": `${bytes}` });
    const arriving = {
      caller: CALLER,
      urgency: "keeps",
      isScrape: false,
      headers,
    } as const;
    const admitted = await admission.enter(arriving);
    await admitted.arrive();
    await admitted.begin(items);
  };
  const large = began(100_000, 1_000);
  const many = began(10_000, 21);
  expect(await turnsOf([large, large, began(100, 1), large, began(10_000, 20)])).toEqual([
    1, 17, 0, 33, 0,
  ]);
  expect(await turnsOf([many, began(100, 1), many, many])).toEqual([15, 0, 31, 47]);
});

it("many small requests of a tenant share turns, and another tenant's renewal does not wait for them", async () => {
  const { admission } = setUp(null);
  const renew = (namespace: string, items: number) => async () => {
    const caller = { ...CALLER, namespace };
    const headers = new Headers({ "content-length": "100" });
    const arriving = { caller, urgency: "keeps", isScrape: false, headers } as const;
    const admitted = await admission.enter(arriving);
    await admitted.arrive();
    await admitted.begin(items);
  };
  const flood = Array.from({ length: 60 }, () => renew("a", 20));
  const turns = await turnsOf([...flood, renew("b", 1)]);
  expect(turns.pop()).toBe(0);
  const inTurn = new Map<number, number>();
  for (const turn of turns) inTurn.set(turn, (inTurn.get(turn) ?? 0) + 1);
  expect(Math.max(...inTurn.values())).toBeLessThanOrEqual(5);
});

it("requests without keys, which cannot be distinguished, wait for no turn", async () => {
  const { admission } = setUp(null);
  const caller: Caller = { ...CALLER, keyId: null, actor: "anyone" };
  const begin = async () => {
    const arriving = { caller, urgency: "keeps", isScrape: false, headers: new Headers() } as const;
    await (await admission.enter(arriving)).begin(20);
  };
  expect(new Set(await turnsOf(Array.from({ length: 60 }, () => begin)))).toEqual(new Set([0]));
});

it("large bodies of claims have the limit and the turns of others, until they may be parsed", async () => {
  const { admission } = setUp(null);
  const headers = new Headers({ "content-length": "65536" });
  const enter = () =>
    admission.enter({ caller: CALLER, urgency: "waits", isScrape: false, headers });
  const entered = await Promise.all(Array.from({ length: 16 }, enter));
  await expect(enter()).rejects.toThrow("1048576 bytes together");
  const turns = await turnsOf(entered.map((admitted) => () => admitted.arrive()));
  expect(turns).toEqual(Array.from({ length: 16 }, (_, index) => 1 + 16 * index));
  const [first] = entered;
  first?.leave();
  expect(await Promise.all(Array.from({ length: 16 }, enter))).toHaveLength(16);
  await expect(enter()).rejects.toThrow("1048576 bytes together");
});

async function open(limits: object) {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env);
  const a = await tenants.newKey("a", "admin");
  const b = await tenants.newKey("b", "admin");
  let answer = (_text: string) => {};
  const reading = new Promise<string>((resolve) => {
    answer = resolve;
  });
  const app = createApp({
    ...stores,
    env,
    auth: "keys",
    metrics: () => reading,
    limits: { ...TEST_LIMITS, ...limits },
    version: "1",
  });
  onTestFinished(async () => {
    await app.close();
    await tenants.app.close();
    await stores.close();
  });
  const ask = (key: string, path: string, init: RequestInit = {}) =>
    app.fetch(
      new Request(`http://x${path}`, {
        ...init,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      }),
    );
  return { env, app, a: a.text, b: b.text, ask, answer };
}

it("a tenant's scrapes share one reading, and those beyond four at once are refused", async () => {
  const { env, a, b, ask, answer } = await open({});
  const asked = Array.from({ length: 6 }, () => ask(a, "/metrics"));
  const other = ask(b, "/metrics");
  await env.clock.settle();
  answer("text");
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  expect(statuses.toSorted()).toEqual([200, 200, 200, 200, 429, 429]);
  expect((await other).status).toBe(200);
});

it("a read of something named metrics is no scrape", async () => {
  const { a, ask } = await open({ ratePerSecond: 1_000 });
  const asked = Array.from({ length: 12 }, () => ask(a, "/v1/once/metrics"));
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  expect(statuses).toEqual(Array(12).fill(404));
});

it("a tenant that goes on after its refusals gets them late", async () => {
  const { env, a, ask } = await open({ ratePerSecond: 5 });
  let answered = 0;
  const list = async () => {
    const { status } = await ask(a, "/v1/limits");
    answered += 1;
    return status;
  };
  const asked = Array.from({ length: 40 }, list);
  await env.clock.settle();
  expect(answered).toBe(25);
  await env.clock.advance(1_000);
  const statuses = await Promise.all(asked);
  expect(statuses.filter((status) => status === 429)).toHaveLength(35);
});

it("the first refusals of another tenant are not late because of those of the first", async () => {
  const { env, a, b, ask } = await open({ ratePerSecond: 5 });
  const asked = Array.from({ length: 40 }, () => ask(a, "/v1/limits"));
  await env.clock.settle();
  const others = Array.from({ length: 10 }, () => ask(b, "/v1/limits"));
  // Without time, which would let late ones be answered.
  const statuses = (await Promise.all(others)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 429)).toHaveLength(5);
  await env.clock.advance(1_000);
  await Promise.all(asked);
});

it("a body above the announced limit is 413, and one of this size is taken", async () => {
  const { a, ask } = await open({ bodyBytes: 100_000 });
  const announced = await (await ask(a, "/v1/capabilities")).json();
  expect(announced).toMatchObject({ maxBodyBytes: 100_000 });
  const task = (bytes: number) => {
    const frame = '{"task_data":""}';
    return { method: "POST", body: `{"task_data":"${"x".repeat(bytes - frame.length)}"}` };
  };
  expect((await ask(a, "/api/tasks", task(100_000))).status).toBe(201);
  const refused = await ask(a, "/api/tasks", task(100_001));
  expect(refused.status).toBe(413);
  expect(await refused.json()).toMatchObject({ detail: "at most 100000 bytes" });
});

it("a small body with many items is served in a turn of its own, and counts although it is wrong", async () => {
  const { env, a, ask } = await open({ ratePerSecond: 20 });
  const renew = (items: unknown[]) =>
    ask(a, "/v1/leases/renew", { method: "POST", body: JSON.stringify(items) });
  // Authentication and limits are read and kept.
  await renew([]);
  const one = { leaseId: `cg.${"0".repeat(48)}`, ttlMs: 5_000 };
  const many = Array.from({ length: 100 }, () => one);
  const turns = await turnsOf([many, [one], many, many].map((items) => () => renew(items)));
  expect(turns[1]).toBeLessThan(turns[0] ?? 0);
  expect(new Set(turns).size).toBe(4);
  await env.clock.advance(1_000);
  await renew(Array.from({ length: 5_000 }, () => ({})));
  expect((await renew([one])).status).toBe(429);
});

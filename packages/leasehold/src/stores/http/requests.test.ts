/** What the stores of a server ask of it: never more than it takes, and nothing after they are closed. */
import { afterEach, expect, test } from "vitest";
import type { ApiKeyQuery, Pause } from "../../control/index.js";
import { newLeaseId, systemRandom } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
import { BOUNDS } from "../../wire/index.js";
import { http } from "./index.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Asked {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: unknown;
  readonly headers: Record<string, string>;
  readonly signal: AbortSignal;
}

/** @param answer default: an empty page */
async function open(answer?: (asked: Asked) => Response | Promise<Response>) {
  const env = manualEnv();
  const calls: Asked[] = [];
  const ttl = { minMs: 1, maxMs: 60_000, stepMs: 1 };
  const capabilities = { namespace: "default", leases: { ttl }, tasks: { ttl }, once: true };
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const { pathname, searchParams } = new URL(url);
    if (pathname === "/v1/capabilities") return Response.json(capabilities);
    const body: unknown = init.body ? JSON.parse(init.body as string) : null;
    const headers = init.headers as Record<string, string>;
    const signal = init.signal as AbortSignal;
    const asked = { path: pathname, query: searchParams, body, headers, signal };
    calls.push(asked);
    return answer?.(asked) ?? Response.json({ items: [], nextCursor: null, tasks: [] });
  };
  const source = http({ url: "http://server", fetch: fetch as typeof globalThis.fetch });
  const stores = await source.open(env);
  closing.push(() => stores.close());
  const { operator } = stores;
  if (!operator || !("audit" in operator)) throw new Error("no operator");
  return { env, calls, stores, operator };
}

const namespace = "default";

test("requests of another namespace fail, and those beside them do not", async () => {
  const renewed = { status: "renewed", token: 1, ttlMs: 5_000, remainingMs: 5_000 };
  const { calls, stores } = await open(() => Response.json([renewed]));
  const renewalOf = (namespace: string) => {
    return { namespace, resource: "r", leaseId: newLeaseId(systemRandom), ttlMs: 5_000 };
  };
  const { leases } = stores;
  const outcomes = await leases.renew([renewalOf("other"), renewalOf(namespace)]);
  expect(outcomes).toMatchObject([
    { status: "failed", applied: "no", error: { path: "namespace" } },
    { status: "renewed" },
  ]);
  expect(calls.map(({ body }) => (body as unknown[]).length)).toEqual([1]);
  await expect(leases.renew([renewalOf("other")])).rejects.toThrow('must be "default"');
});

test("a page has no more items than the server's largest", async () => {
  const { calls, stores, operator } = await open();
  const { leases, tasks } = stores;
  const many = { namespace, limit: 10_000 };
  await leases.list(many);
  await tasks.list(many);
  await tasks.leases(many);
  await operator.audit.list(many);
  await operator.keys.list(many satisfies ApiKeyQuery);
  expect(calls.map(({ path, query }) => [path, query.get("limit")])).toEqual(
    ["/v1/leases", "/api/tasks", "/api/tasks/leases", "/v1/audit", "/v1/keys"].map((path) => [
      path,
      String(BOUNDS.page),
    ]),
  );
  calls.length = 0;
  const few = { namespace, limit: 7, cursor: "c" };
  await leases.list(few);
  await tasks.list(few);
  await tasks.leases(few);
  expect(calls.map(({ query }) => [query.get("limit"), query.get("cursor")])).toEqual(
    Array(3).fill(["7", "c"]),
  );
});

test("records of once have no page above the server's largest, and none without a state", async () => {
  const { calls, stores } = await open();
  await stores.once?.list({
    namespace,
    limit: 10_000,
    prefix: "a&b",
    states: ["failing", "failed"],
  });
  const [asked] = calls;
  expect([asked?.path, asked?.query.toString()]).toEqual([
    "/v1/once",
    `prefix=a%26b&state=failing&state=failed&limit=${BOUNDS.page}`,
  ]);
  calls.length = 0;
  const none = { items: [], nextCursor: null };
  expect(await stores.once?.list({ namespace, states: [] })).toEqual(none);
  expect(calls).toEqual([]);
});

test("a key is one part of a path, whatever it contains, or is refused", async () => {
  const { calls, stores } = await open(() => Response.json({}));
  const { once } = stores;
  await once?.get({ namespace, key: "a/../b?c#d%2F" });
  expect(calls.map(({ path }) => path)).toEqual(["/v1/once/a%2F..%2Fb%3Fc%23d%252F"]);
  for (const key of [".", ".."]) {
    const refused = { code: "INVALID_OPTION", path: "key" };
    await expect(once?.get({ namespace, key })).rejects.toMatchObject(refused);
    await expect(once?.delete({ namespace, key })).rejects.toMatchObject(refused);
  }
  expect(calls).toHaveLength(1);
});

test("a report of once that the server refuses is an outcome, and not sent again", async () => {
  const { calls, stores } = await open(() =>
    Response.json({ code: "FORBIDDEN", detail: "no", status: 403 }, { status: 403 }),
  );
  const grant = { namespace, key: "bill", leaseId: newLeaseId(systemRandom), token: 1 };
  const failure = { ...grant, error: "no", maxAttempts: null, retryDelayMs: 0 };
  expect(await stores.once?.fail(failure)).toMatchObject({ status: "failed", applied: "no" });
  const success = { ...grant, value: 1, keepMs: null };
  expect(await stores.once?.succeed(success)).toMatchObject({ status: "failed", applied: "no" });
  expect(calls).toHaveLength(2);
});

test("no state at all is no page of all states", async () => {
  const { calls, stores } = await open();
  const none = { items: [], nextCursor: null };
  expect(await stores.leases.list({ namespace, states: [] })).toEqual(none);
  expect(await stores.tasks.list({ namespace, states: [] })).toEqual(none);
  expect(await stores.tasks.leases({ namespace, states: [] })).toEqual(none);
  expect(calls).toEqual([]);
});

test("a wait is no longer than the server's longest, and its answer has 5 s more", async () => {
  const { calls, stores } = await open();
  const claim = { namespace, holder: "h", queues: ["q"], kinds: null, ttlMs: 1_000 };
  const claimId = newLeaseId(systemRandom);
  await stores.tasks.claim({ ...claim, claimId, limit: 5_000, waitMs: 90_000.7 });
  await stores.tasks.claim({ ...claim, claimId, limit: 2, waitMs: 1_500.5 });
  expect(calls.map(({ body }) => body)).toMatchObject([
    { limit: BOUNDS.claim, waitMs: BOUNDS.waitMs },
    { limit: 2, waitMs: 1_500 },
  ]);
  expect(Number(calls[1]?.headers["leasehold-budget-ms"])).toBeGreaterThanOrEqual(6_500);
  await stores.tasks.claim({ ...claim, claimId, limit: 2, queues: [] });
  expect(calls).toHaveLength(2);
});

test("an acquire waits in the queue no longer than the server's longest", async () => {
  const { calls, stores } = await open(() => Response.json([{ status: "ended" }]));
  const leaseId = newLeaseId(systemRandom);
  const request = { namespace, resource: "r", leaseId, holder: "h", ttlMs: 1_000 };
  await stores.leases.acquire([{ ...request, queueMs: Number.POSITIVE_INFINITY }]);
  await stores.leases.acquire([{ ...request, queueMs: 5 }]);
  await stores.leases.acquire([request]);
  expect(calls.map(({ body }) => (body as { queueMs?: number }[])[0]?.queueMs)).toEqual([
    BOUNDS.queueMs,
    5,
    undefined,
  ]);
});

test("a close ends the calls of all its stores at once", async () => {
  const { env, calls, stores, operator } = await open(
    ({ signal }) =>
      new Promise<Response>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      }),
  );
  const key = { namespace, resource: "r" };
  const asked = [
    stores.leases.get([key]),
    stores.tasks.counts(namespace),
    stores.backing?.kind === "server" && stores.backing.read(namespace, "/api/x"),
    operator.pauses.list(namespace),
    stores.waiters?.(key),
  ].map((call) => expect(call).rejects.toMatchObject({ code: "CLOSED" }));
  await env.clock.settle();
  expect(calls).toHaveLength(5);
  await stores.close();
  await Promise.all(asked);
  expect(env.clock.pendingTimers).toBe(0);
});

test("what an operator reads and sets is tried again while the server is unavailable", async () => {
  let calls = 0;
  const pause = { kind: "queue", name: "q", actor: "me", reason: "why", since: "now" } as const;
  const { env, operator } = await open(({ path }) => {
    calls += 1;
    if (calls % 2 === 1) return Response.json({}, { status: 503 });
    const paused = path === "/v1/pauses" && calls === 4 ? pause : { items: [pause] };
    return Response.json(paused);
  });
  const advanced = async <T>(call: Promise<T>): Promise<T> => {
    await env.clock.advance(5_000);
    return call;
  };
  const paused: Pause = { namespace, ...pause };
  expect(await advanced(operator.pauses.list(namespace))).toEqual([paused]);
  const act = {
    namespace,
    actor: "me",
    action: "queue.pause",
    target: "q",
    reason: "why",
  } as const;
  const set = operator.perform(act, async ({ pauses }) => {
    const value = await pauses.set({ namespace, ...pause });
    return { value, details: {} };
  });
  expect(await advanced(set)).toEqual(paused);
  expect(calls).toBe(4);
});

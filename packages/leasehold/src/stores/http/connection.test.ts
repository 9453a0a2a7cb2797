import { getEventListeners } from "node:events";
import { afterEach, describe, expect, test } from "vitest";
import { openApp } from "../../../../../tests/support/server/app.js";
import { TEST_LIMITS } from "../../../../../tests/support/server/test-limits.js";
import { listen } from "../../../../leasehold-server/src/http/index.js";
import { newLeaseId, systemClock, systemEnv, systemRandom, taskIds } from "../../env/index.js";
import type { LeaseholdError, StoreUnavailableError } from "../../lease/index.js";
import { DEFAULTS } from "../../tasks/index.js";
import { manualEnv } from "../../testing/index.js";
import { BOUNDS } from "../../wire/index.js";
import { type Call, HttpClient, isFailed, queryOf } from "./connection.js";
import { Servers } from "./connection-servers.js";
import { http } from "./index.js";

/** One scripted response of fetch: a status with a body, a connection error code, or silence. */
type Step =
  | { status: number; body?: unknown; retryAfter?: string }
  | { code: string; syscall?: string }
  | "silence";

/** A client whose server plays the steps in order and repeats the last one. */
function scripted(...steps: Step[]) {
  const env = manualEnv();
  const clock = env.clock;
  const sent: { url: string; headers: Record<string, string>; body: unknown }[] = [];
  const fetch = (url: string, init: RequestInit): Promise<Response> => {
    const step = steps[Math.min(sent.length, steps.length - 1)] ?? "silence";
    sent.push({ url, headers: init.headers as Record<string, string>, body: init.body });
    if (step === "silence") {
      return new Promise((_, reject) => {
        init.signal?.addEventListener("abort", () => reject(init.signal?.reason as Error));
      });
    }
    if ("code" in step) {
      const cause = Object.assign(new Error(step.code), step);
      return Promise.reject(new TypeError("fetch failed", { cause }));
    }
    const { status, body, retryAfter } = step;
    const text = typeof body === "string" ? body : JSON.stringify(body ?? null);
    const headers = retryAfter ? { "retry-after": retryAfter } : {};
    return Promise.resolve(new Response(status === 204 ? null : text, { status, headers }));
  };
  const client = new HttpClient({
    servers: new Servers(["http://server"]),
    namespace: "default",
    headers: { x: "1" },
    maxBodyBytes: BOUNDS.payloadBodyBytes,
    env,
    fetch,
  });
  /** Runs a call to its end, advancing the clock while it waits. */
  const send = async (call: Partial<Call> = {}) => {
    let done = false;
    const answer = client
      .send({ method: "POST", path: "/x", body: "[]", budgetMs: 1_000, ...call })
      .finally(() => {
        done = true;
      });
    answer.catch(() => {});
    for (let ms = 0; !done && ms < 20_000; ms += 10) await clock.advance(10);
    return answer;
  };
  return { client, clock, env, sent, send };
}

const PROBLEM = { code: "STORE_UNAVAILABLE", detail: "it is down" };

describe("one call", () => {
  test("returns the response, and sends its time budget", async () => {
    const { send, sent } = scripted({ status: 200, body: [1] });
    expect(await send()).toEqual({ status: 200, body: [1] });
    expect(sent).toEqual([
      {
        url: "http://server/x",
        headers: {
          x: "1",
          accept: "application/json",
          "leasehold-budget-ms": "1000",
          "content-type": "application/json",
        },
        body: "[]",
      },
    ]);
  });

  for (const [name, step, applied] of [
    ["a refused connection", { code: "ECONNREFUSED" }, "no"],
    ["no way to the host", { code: "EHOSTUNREACH", syscall: "connect" }, "no"],
    ["a way to the host that has gone", { code: "EHOSTUNREACH", syscall: "read" }, "maybe"],
    ["an unknown host", { code: "ENOTFOUND" }, "no"],
    ["a reset connection", { code: "ECONNRESET" }, "maybe"],
    ["a connection closed by the server", { code: "UND_ERR_SOCKET" }, "maybe"],
    ["503", { status: 503, body: PROBLEM }, "no"],
    ["429", { status: 429, body: PROBLEM }, "no"],
    ["a proxy's page of 429", { status: 429, body: "<html>" }, "no"],
    ["504", { status: 504, body: PROBLEM }, "maybe"],
    ["500", { status: 500, body: PROBLEM }, "maybe"],
    ["a proxy's page of 502", { status: 502, body: "<html>" }, "maybe"],
    ["silence", "silence", "maybe"],
  ] as const) {
    test(`${name} yields applied "${applied}", after one attempt within the budget`, async () => {
      const { send, sent, clock } = scripted(step);
      const startMs = clock.monotonic();
      const answer = await send();
      expect(answer).toMatchObject({ status: "failed", applied, retryable: true });
      const { error } = answer as { error: LeaseholdError };
      expect(error.code).toBe("STORE_UNAVAILABLE");
      expect(clock.monotonic() - startMs).toBeLessThanOrEqual(1_010);
      expect(sent).toHaveLength(1);
    });
  }

  test("reports the server's retry delay in its error", async () => {
    const { send } = scripted({ status: 503, retryAfter: "2" });
    const error = { code: "STORE_UNAVAILABLE", outcome: "none", retryAfterMs: 2_000 };
    expect(await send()).toMatchObject({ status: "failed", applied: "no", error });
  });

  for (const [code, refusedBy] of [
    ["LIMIT_REACHED", "limit"],
    ["TOO_MANY_REQUESTS", "rate"],
    ["OVERLOADED", "load"],
    ["__proto__", undefined],
  ] as const) {
    test(`says by what a server refuses: ${code}`, async () => {
      const { send } = scripted({ status: 429, body: JSON.stringify({ code, detail: "no" }) });
      const { error } = (await send()) as { error: StoreUnavailableError };
      expect(error.refusedBy).toBe(refusedBy);
    });
  }

  test("is not sent once its time budget is spent", async () => {
    const { send, sent } = scripted({ status: 200 });
    expect(await send({ budgetMs: 0.5 })).toMatchObject({ status: "failed", applied: "no" });
    expect(sent).toEqual([]);
  });

  test("ends with its signal and with the client", async () => {
    const { client, clock, send, sent } = scripted("silence");
    const gone = new AbortController();
    const first = client.send({ method: "GET", path: "/", signal: gone.signal });
    const second = client.send({ method: "GET", path: "/" });
    await clock.settle();
    gone.abort();
    expect(await first).toMatchObject({ status: "failed", applied: "maybe" });
    client.close();
    const closed = { status: "failed", applied: "maybe", retryable: false };
    expect(await second).toMatchObject({ ...closed, error: { code: "CLOSED" } });
    expect(await send()).toMatchObject({ ...closed, applied: "no", error: { code: "CLOSED" } });
    expect(sent).toHaveLength(2);
    expect(clock.pendingTimers).toBe(0);
  });

  test("leaves no listener on a signal that outlives it, whatever its result", async () => {
    const { signal } = new AbortController();
    const steps: Step[] = [{ status: 200, body: [] }, { status: 503 }, { code: "ECONNRESET" }];
    const { send } = scripted(...steps, "silence");
    for (let round = 0; round < 4; round += 1) await send({ signal });
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("throws on errors that only the caller can fix, naming the field", async () => {
    const errors = [{ path: "0.ttlMs", problem: "must be from 100 to 1000, not 5" }];
    const invalid = scripted({ status: 422, body: { code: "INVALID_REQUEST", errors } });
    await expect(invalid.send()).rejects.toMatchObject({ code: "INVALID_OPTION", path: "0.ttlMs" });
    const large = scripted({ status: 413, body: { code: "BODY_TOO_LARGE" } });
    await expect(large.send()).rejects.toMatchObject({ code: "INVALID_OPTION" });
    for (const step of [
      { status: 404, body: { code: "UNKNOWN_ROUTE" } },
      { status: 404, body: [] },
      { status: 302, body: "" },
      { status: 401, body: {} },
    ]) {
      await expect(scripted(step).send()).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
    }
    const wrongPath = scripted({ status: 404, body: { code: "UNKNOWN_ROUTE", detail: "see x" } });
    await expect(wrongPath.send()).rejects.toThrow(
      /no such route \(see x\): remove or correct the path/,
    );
    const page = scripted({ status: 200, body: "<html>" });
    expect(await page.send()).toMatchObject({
      status: "failed",
      applied: "maybe",
      error: { code: "STORE_MISCONFIGURED" },
    });
  });

  test("returns the responses that become outcomes", async () => {
    const refused = { code: "LEASE_TAKEN", reason: "taken" };
    const answers = [
      await scripted({ status: 409, body: refused }).send(),
      await scripted({ status: 404, body: { code: "UNKNOWN_TASK" } }).send(),
    ];
    expect(answers.some(isFailed)).toBe(false);
  });
});

describe("the store", () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });
  /** A client of an app in this process, without a network. */
  async function open() {
    const env = manualEnv();
    const app = await openApp();
    const calls: string[] = [];
    const fetch = ((url: string, init: RequestInit) => {
      calls.push(new URL(url).pathname);
      return app.app.fetch(new Request(url, init));
    }) as typeof globalThis.fetch;
    const stores = await http({ url: "http://localhost", fetch }).open(env);
    closing.push(
      () => stores.close(),
      () => app.close(),
    );
    return { stores, app, calls };
  }

  test("reports the capabilities of the server's stores", async () => {
    const { stores } = await open();
    expect(stores.leases.capabilities).toMatchObject({
      clock: "store",
      grants: "portable",
      queue: true,
      watch: "push",
      ttl: { minMs: TEST_LIMITS.shortestTtlMs, stepMs: 1 },
    });
    expect(stores.tasks.capabilities).toMatchObject({
      watch: "push",
      remoteWait: true,
      reaps: true,
    });
  });

  test("sends a batch as one request, a larger one in parts, in order", async () => {
    const { stores, calls } = await open();
    const key = { namespace: "default", holder: "h", ttlMs: 10_000 };
    const leaseId = newLeaseId(systemRandom);
    const requests = Array.from({ length: 2_500 }, (_, index) => ({
      ...key,
      resource: `r${index % 1_200}`,
      leaseId,
    }));
    calls.length = 0;
    const outcomes = await stores.leases.acquire(requests);
    expect(calls).toEqual(Array(3).fill("/v1/leases/acquire"));
    expect(outcomes).toHaveLength(2_500);
    expect(outcomes.every(({ status }) => status === "acquired")).toBe(true);
    const views = await stores.leases.get(requests);
    expect(views.map((view) => view?.resource)).toEqual(requests.map(({ resource }) => resource));
    expect(await stores.leases.acquire([])).toEqual([]);
  });

  test("a request that the server rejects as malformed fails alone and is not retryable", async () => {
    const { stores } = await open();
    const key = { namespace: "default", holder: "h", ttlMs: 10_000 };
    const leaseId = newLeaseId(systemRandom);
    const requests = Array.from({ length: 1_500 }, (_, index) => ({
      ...key,
      resource: `r${index}`,
      leaseId,
      ...(index === 700 || index === 1_400 ? { ttlMs: 5 } : {}),
    }));
    const outcomes = await stores.leases.acquire(requests);
    for (const [index, outcome] of outcomes.entries()) {
      if (requests[index]?.ttlMs === 5) {
        expect(outcome).toMatchObject({
          status: "failed",
          applied: "no",
          retryable: false,
          error: { code: "INVALID_OPTION" },
        });
      } else {
        expect(outcome).toMatchObject({ status: "acquired", token: 1 });
      }
    }
  });

  test("an output above the server's limit fails alone, over a real connection too", async () => {
    const { app } = await openApp();
    const server = await listen({ app, port: 0 });
    closing.push(() => server.close());
    const stores = await http({ url: server.url }).open(systemEnv);
    closing.unshift(() => stores.close());
    const newId = taskIds(systemClock, systemRandom);
    const ids = [newId(), newId(), newId()];
    const enqueued = ids.map((id) => ({
      ...DEFAULTS,
      namespace: "default",
      id,
      kind: "k",
      data: null,
      scheduledAt: null,
      dedupeKey: null,
    }));
    await stores.tasks.enqueue(enqueued);
    const claim = await stores.tasks.claim({
      namespace: "default",
      claimId: newLeaseId(systemRandom),
      holder: "h",
      queues: ["default"],
      kinds: null,
      limit: 3,
      ttlMs: 30_000,
    });
    if (claim.status !== "claimed") throw claim.error;
    const reports = claim.tasks.map(({ id, leaseId, token }, index) => ({
      namespace: "default",
      id,
      leaseId,
      token,
      output: index === 1 ? "x".repeat(10 * BOUNDS.payloadBodyBytes) : "small",
    }));
    expect(await stores.tasks.complete(reports)).toMatchObject([
      { status: "completed" },
      { status: "failed", applied: "no", retryable: false, error: { code: "INVALID_OPTION" } },
      { status: "completed" },
    ]);
  });

  test("accepts only the namespace of its server", async () => {
    const { stores } = await open();
    const error = { code: "INVALID_OPTION", path: "namespace" };
    const key = { namespace: "other", resource: "r", id: "x" };
    await expect(stores.leases.get([key])).rejects.toMatchObject(error);
    await expect(stores.leases.list(key)).rejects.toMatchObject(error);
    await expect(stores.tasks.get(key)).rejects.toMatchObject(error);
    const { backing } = stores;
    if (backing?.kind !== "server") throw new Error("a server is behind it");
    await expect(backing.read("other", "/api/x")).rejects.toMatchObject(error);
    const change = { method: "POST", path: "/api/x" } as const;
    await expect(backing.change("other", change)).rejects.toMatchObject(error);
    const release = stores.leases.release([{ ...key, leaseId: "0".repeat(48) }]);
    await expect(release).rejects.toMatchObject(error);
    await expect(stores.tasks.cancel([key])).rejects.toMatchObject(error);
  });

  test("rejects options that have no meaning over HTTP", async () => {
    const { stores } = await open();
    const client = { query: () => Promise.resolve({ rows: [] }) };
    const enqueue = stores.tasks.enqueue([], { client });
    await expect(enqueue).rejects.toMatchObject({ code: "INVALID_OPTION", path: "client" });
  });
});

test("queries omit undefined values and repeat list values", () => {
  expect(queryOf({ a: 1, b: undefined, c: ["x", "y&"], d: false })).toBe("?a=1&c=x&c=y%26&d=false");
  expect(queryOf({ a: undefined, b: [] })).toBe("");
});

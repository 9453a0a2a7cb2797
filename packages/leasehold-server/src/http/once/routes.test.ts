/** /v1/once as any HTTP client calls it; the conformance suite has the outcomes of the port. */
import { StoreUnavailableError } from "leasehold";
import {
  type CallOptions,
  newLeaseId,
  type Role,
  resourceOf,
  systemEnv,
  systemRandom,
  VALUE_BYTES,
} from "leasehold/internal";
import { BUDGET_HEADER, toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Asked, expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { parseMetrics, valueOf } from "../../../../../tests/support/server/metrics.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { startOpenTelemetry } from "../../cli/open-telemetry.js";

/** Takes the lease on a key, as an HTTP client does. */
async function hold({ ask }: Asked, key: string, holder = "ada") {
  const leaseId = toWireLeaseId(resourceOf(key), newLeaseId(systemRandom));
  const request = [{ leaseId, holder, ttlMs: 60_000 }];
  const { body } = await ask("POST", "/v1/leases/acquire", request);
  expect(body).toMatchObject([{ status: "acquired" }]);
  return { leaseId, token: body[0].token as number };
}

const pathOf = (key: string) => `/v1/once/${encodeURIComponent(key)}`;

describe("the records of once", () => {
  it("have a success, and the lease on the key ends with it", async () => {
    const app = await openTestApp();
    const grant = await hold(app, "bill:2026-11");
    const value = { sent: 12 };
    const recorded = await app.ask("POST", "/v1/once/succeed", { ...grant, value });
    expect([recorded.status, recorded.body]).toEqual([200, { status: "recorded" }]);
    const { status, body } = await app.ask("GET", pathOf("bill:2026-11"));
    expect(status).toBe(200);
    expect(body).toEqual({
      key: "bill:2026-11",
      state: "done",
      value,
      by: "ada",
      at: expect.any(String) as string,
      token: grant.token,
      failures: 0,
      error: null,
      nextInMs: 0,
      keepUntil: null,
    });
    const [lease] = (await app.ask("POST", "/v1/leases/get", ["once:bill:2026-11"])).body;
    expect(lease.state).toBe("released");
  });

  it("count failures, with the defaults of the library", async () => {
    const app = await openTestApp();
    const failed = await app.ask("POST", "/v1/once/fail", {
      ...(await hold(app, "bill")),
      error: "the bank is closed",
    });
    expect(failed.body).toEqual({ status: "recorded", state: "failing", failures: 1 });
    const { body } = await app.ask("GET", "/v1/once?state=failing");
    expect(body.items).toMatchObject([{ key: "bill", error: "the bank is closed", nextInMs: 0 }]);
    expect((await app.ask("GET", "/v1/once?state=done&state=failed")).body.items).toEqual([]);
  });

  it("are counted by what callers report", async () => {
    const exporting = await startOpenTelemetry({}, { collector: false });
    onTestFinished(() => exporting.close());
    const app = await openTestApp({ env: { ...systemEnv, telemetry: exporting.telemetry } });
    const grant = await hold(app, "bill");
    await app.ask("POST", "/v1/once/fail", { ...grant, error: "no" });
    await app.ask("POST", "/v1/once/succeed", { ...grant, value: 1 });
    await app.ask("POST", "/v1/once/succeed", { ...(await hold(app, "bill")), value: 1 });
    const samples = parseMetrics(await exporting.metrics());
    const counted = ["ran", "failed", "lost", "answered"].map((outcome) =>
      valueOf(samples, "leasehold_once_runs_total", { outcome }),
    );
    expect(counted).toEqual([1, 1, 1, 0]);
  });

  it("are recorded in the time that the caller has, and counted only if they were", async () => {
    const exporting = await startOpenTelemetry({}, { collector: false });
    onTestFinished(() => exporting.close());
    const app = await openTestApp({ env: { ...systemEnv, telemetry: exporting.telemetry } });
    const { once } = app.stores;
    if (!once) throw new Error("memory keeps the records of once");
    const timeouts: number[] = [];
    const error = new StoreUnavailableError("lost", { outcome: "unknown" });
    const lost = { status: "failed", applied: "maybe", retryable: true, error } as const;
    const lose = async (_: unknown, { timeoutMs = Number.NaN }: CallOptions = {}) => {
      timeouts.push(timeoutMs);
      return lost;
    };
    Object.assign(once, { succeed: lose, fail: lose });
    const grant = await hold(app, "bill");
    const init = { headers: { [BUDGET_HEADER]: "2000" } };
    for (const [how, body] of [
      ["succeed", { value: 1 }],
      ["fail", { error: "no" }],
    ] as const) {
      const answer = await app.ask("POST", `/v1/once/${how}`, { ...grant, ...body }, init);
      expect(answer.body).toMatchObject({ status: "failed", applied: "maybe" });
    }
    expect(timeouts).toHaveLength(2);
    for (const timeoutMs of timeouts) expect(timeoutMs).toBeLessThanOrEqual(2_000);
    const samples = parseMetrics(await exporting.metrics());
    const counted = ["ran", "failed", "lost"].map((outcome) =>
      valueOf(samples, "leasehold_once_runs_total", { outcome }),
    );
    expect(counted).toEqual([0, 0, 0]);
  });

  it("emit the end of the lease", async () => {
    const events: unknown[] = [];
    const app = await openTestApp({ onLeaseEvent: ({ type }) => events.push(type) });
    const grant = await hold(app, "bill");
    await app.ask("POST", "/v1/once/fail", { ...grant, error: "no" });
    await app.ask("POST", "/v1/once/fail", { ...grant, token: grant.token + 1, error: "no" });
    expect(events).toEqual(["acquired", "released"]);
  });

  it.each(["a/b?c#d%41", "%2F", "é🔑", " ", "x".repeat(200), "succeed", "retry", "a/retry", "..."])(
    "have the key %j, percent-encoded in its path",
    async (key) => {
      const app = await openTestApp();
      await app.ask("POST", "/v1/once/fail", { ...(await hold(app, key)), error: "no" });
      expect((await app.ask("GET", pathOf(key))).body).toMatchObject({ key, state: "failing" });
      const retried = await app.ask("POST", `${pathOf(key)}/retry`);
      expect([retried.status, retried.body]).toEqual([200, { key, wasFailing: true }]);
      const again = await app.ask("POST", `${pathOf(key)}/retry`);
      expect(again.body).toEqual({ key, wasFailing: false });
      const grant = await hold(app, key);
      await app.ask("POST", "/v1/once/succeed", { ...grant, value: key });
      expect((await app.ask("GET", pathOf(key))).body).toMatchObject({ key, value: key });
      expect((await app.ask("DELETE", pathOf(key))).body).toEqual({ key, wasRecorded: true });
      expect((await app.ask("DELETE", pathOf(key))).body).toEqual({ key, wasRecorded: false });
      expectProblem(await app.ask("GET", pathOf(key)), 404, "UNKNOWN_ONCE");
    },
  );

  it.each(["\0", "x".repeat(201), "\u200b"])("are none under the key %j", async (key) => {
    const { ask } = await openTestApp();
    expectProblem(await ask("GET", pathOf(key)), 404, "UNKNOWN_ONCE");
    expect((await ask("POST", `${pathOf(key)}/retry`)).body).toEqual({ key, wasFailing: false });
    expect((await ask("DELETE", pathOf(key))).body).toEqual({ key, wasRecorded: false });
  });

  it("take the longest value, however a client escapes it, and no longer one", async () => {
    const app = await openTestApp();
    const value = "é".repeat((VALUE_BYTES - 2) / 2);
    const grant = await hold(app, "bill");
    const escaped = JSON.stringify({ ...grant, value }).replaceAll("é", "\\u00e9");
    expect(escaped.length).toBeGreaterThan(190_000);
    expect((await app.ask("POST", "/v1/once/succeed", escaped)).body).toEqual({
      status: "recorded",
    });
    expect((await app.ask("GET", pathOf("bill"))).body.value).toBe(value);
    const refused = await app.ask("POST", "/v1/once/succeed", {
      ...(await hold(app, "mail")),
      value: `${value}!`,
    });
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.errors).toMatchObject([{ path: "value" }]);
  });

  /** As many, sorted by key, each with this value. */
  async function succeedAll({ stores: { once, leases } }: Asked, count: number, value: string) {
    const names = Array.from({ length: count }, (_, at) => `key-${String(at).padStart(2, "0")}`);
    for (const key of names) {
      const leaseId = newLeaseId(systemRandom);
      const lease = { namespace: "default", resource: resourceOf(key), leaseId };
      const [held] = await leases.acquire([{ ...lease, holder: "ada", ttlMs: 60_000 }]);
      if (held?.status !== "acquired") throw new Error("not acquired");
      const { token } = held;
      await once?.succeed({ namespace: "default", key, leaseId, token, value, keepMs: null });
    }
    return names;
  }
  const keysOf = ({ items }: { items: { key: string }[] }) => items.map(({ key }) => key);

  it.each([1, 20, 30, 45, 60])("are listed in pages of at most %i", async (limit) => {
    const app = await openTestApp();
    const keys = await succeedAll(app, 50, "small");
    const { body } = await app.ask("GET", `/v1/once?limit=${limit}`);
    expect(keysOf(body)).toEqual(keys.slice(0, limit));
    expect(body.nextCursor === null).toBe(limit > keys.length);
  });

  it("are listed in pages that large values make shorter", async () => {
    const app = await openTestApp();
    const keys = await succeedAll(app, 60, "x".repeat(VALUE_BYTES - 2));
    const listed: string[] = [];
    let pages = 0;
    for (let cursor: string | null = ""; cursor !== null; pages += 1) {
      const after: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const { body } = await app.ask("GET", `/v1/once?limit=200${after}`);
      expect(JSON.stringify(body).length).toBeLessThan(2_500_000);
      listed.push(...keysOf(body));
      cursor = body.nextCursor;
    }
    expect(listed).toEqual(keys);
    expect(pages).toBe(3);
  });

  it("are filtered by prefix and state on all reads of a page", async () => {
    const app = await openTestApp();
    const keys = await succeedAll(app, 50, "small");
    const failed = ["a-failed", "key-00-failed", "key-45-failed", "z-failed"];
    for (const key of failed) {
      await app.ask("POST", "/v1/once/fail", { ...(await hold(app, key)), error: "no" });
    }
    const listed = async (query: string) =>
      keysOf((await app.ask("GET", `/v1/once?limit=50&${query}`)).body);
    expect(await listed("state=done")).toEqual(keys);
    expect(await listed("prefix=key-&state=done")).toEqual(keys);
    expect(await listed("prefix=key-")).toEqual(
      [...keys, "key-00-failed", "key-45-failed"].sort().slice(0, 50),
    );
    const { body } = await app.ask("GET", "/v1/once?prefix=key-&limit=200");
    expect(keysOf(body)).toHaveLength(52);
  });

  it.each([
    ["succeed", { leaseId: toWireLeaseId("r", "0".repeat(48)), token: 1, value: 1 }, "leaseId"],
    ["succeed", { leaseId: toWireLeaseId("once:", "0".repeat(48)), token: 1, value: 1 }, "leaseId"],
    ["succeed", { leaseId: "x", token: 1, value: 1 }, "leaseId"],
    ["succeed", { token: 0, value: 1 }, "token"],
    ["succeed", { token: 1 }, "value"],
    ["succeed", { token: 1, value: 1, keepMs: 0 }, "keepMs"],
    ["succeed", { token: 1, value: 1, key: "bill" }, "key"],
    ["fail", { token: 1 }, "error"],
    ["fail", { token: 1, error: "no", maxAttempts: 0 }, "maxAttempts"],
    ["fail", { token: 1, error: "no", retryDelayMs: -1 }, "retryDelayMs"],
  ])("refuse %s with %j", async (operation, body, path) => {
    const { ask } = await openTestApp();
    const leaseId = toWireLeaseId("once:bill", "0".repeat(48));
    const refused = await ask("POST", `/v1/once/${operation}`, { leaseId, ...body });
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.errors).toMatchObject([{ path }]);
  });
});

describe("a server that keeps no records", () => {
  it("says so, with the remedy, and announces none", async () => {
    const { ask } = await openTestApp({ once: undefined });
    expect((await ask("GET", "/v1/capabilities")).body.once).toBe(false);
    const grant = { leaseId: toWireLeaseId("once:bill", "0".repeat(48)), token: 1 };
    for (const [method, path, body] of [
      ["GET", "/v1/once", undefined],
      ["GET", "/v1/once/bill", undefined],
      ["POST", "/v1/once/succeed", { ...grant, value: 1 }],
      ["POST", "/v1/once/fail", { ...grant, error: "no" }],
      ["POST", "/v1/once/bill/retry", undefined],
      ["DELETE", "/v1/once/bill", undefined],
    ] as const) {
      const refused = await ask(method, path, body);
      expectProblem(refused, 501, "NO_ONCE");
      expect(refused.body.detail).toContain("without --control");
    }
  });

  it("without a control database retries and deletes no key, because it keeps no audit", async () => {
    const { ask } = await openTestApp({ control: undefined, auth: "none" });
    expect((await ask("GET", "/v1/capabilities")).body.once).toBe(true);
    expectProblem(await ask("POST", "/v1/once/bill/retry"), 501, "NO_CONTROL");
    expectProblem(await ask("DELETE", "/v1/once/bill"), 501, "NO_CONTROL");
  });
});

describe("an operator's action on a key", () => {
  it("is in the audit, with its reason and what it changed", async () => {
    const app = await openTestApp();
    await app.ask("POST", "/v1/once/fail", { ...(await hold(app, "bill")), error: "no" });
    await app.ask("POST", "/v1/once/bill/retry?reason=fixed");
    await app.ask("DELETE", "/v1/once/bill?reason=wrong");
    const { body } = await app.ask("GET", "/v1/audit?action=once.retry&action=once.delete");
    const entries = body.items.filter(({ phase }: { phase: string }) => phase !== "intent");
    expect(entries).toMatchObject([
      { action: "once.delete", target: "bill", reason: "wrong", details: { changed: false } },
      { action: "once.retry", target: "bill", reason: "fixed", details: { changed: true } },
    ]);
  });
});

describe("with API keys", () => {
  async function open() {
    const stores = await memory().open(systemEnv);
    const tenants = openTenants(stores, systemEnv);
    onTestFinished(async () => {
      await tenants.app.close();
      await stores.close();
    });
    const as = async (namespace: string, role: Role, prefixes?: string[]) => {
      const { text } = await tenants.newKey(namespace, role, prefixes && { prefixes });
      return async (method: string, path: string, body?: unknown) => {
        const answer = await tenants.ask(text, { method, path, body });
        return { ...answer, body: JSON.parse(answer.text) as unknown };
      };
    };
    return { as };
  }

  it("each tenant has its own record of a key", async () => {
    const { as } = await open();
    const [a, b] = [await as("a", "admin"), await as("b", "admin")];
    const leaseId = toWireLeaseId("once:bill", newLeaseId(systemRandom));
    const request = [{ leaseId, holder: "ada", ttlMs: 60_000 }];
    const [held] = (await a("POST", "/v1/leases/acquire", request)).body as { token: number }[];
    const success = { leaseId, token: held?.token, value: "of a" };
    const others = await b("POST", "/v1/once/succeed", success);
    expect(others.body).toEqual({ status: "refused" });
    const own = await a("POST", "/v1/once/succeed", success);
    expect(own.body).toEqual({ status: "recorded" });
    expect((await b("POST", "/v1/once/succeed", success)).body).toEqual({ status: "refused" });
    expect((await b("GET", "/v1/once/bill")).status).toBe(404);
    expect((await b("GET", "/v1/once")).body).toMatchObject({ items: [] });
    const deleted = await b("DELETE", "/v1/once/bill?reason=mine");
    expect(deleted.body).toEqual({ key: "bill", wasRecorded: false });
    expect((await a("GET", "/v1/once/bill")).body).toMatchObject({ value: "of a" });
  });

  it("a holder reads and records the keys of its prefixes alone", async () => {
    const { as } = await open();
    const holder = await as("a", "holder", ["once:bill:"]);
    expect((await holder("GET", "/v1/once?prefix=bill:")).status).toBe(200);
    expect((await holder("GET", "/v1/once/bill%3A1")).status).toBe(404);
    for (const path of ["/v1/once", "/v1/once?prefix=b", "/v1/once/mail"]) {
      expect((await holder("GET", path)).status).toBe(403);
    }
    const leaseId = toWireLeaseId("once:mail", newLeaseId(systemRandom));
    const refused = await holder("POST", "/v1/once/fail", { leaseId, token: 1, error: "no" });
    expect(refused.status).toBe(403);
  });

  it("an operator says why", async () => {
    const { as } = await open();
    const operator = await as("a", "operator");
    for (const [method, path] of [
      ["POST", "/v1/once/bill/retry"],
      ["DELETE", "/v1/once/bill"],
    ] as const) {
      const refused = await operator(method, path);
      expect([refused.status, refused.text]).toEqual([422, expect.stringContaining("reason")]);
      expect((await operator(method, `${path}?reason=why`)).status).toBe(200);
    }
  });
});

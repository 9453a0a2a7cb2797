/** Reads whose cost grows with what a tenant has stored: how many of a tenant are in the store at once. */
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished, vi } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { Tenant } from "./tenants.js";

const TASK = "018f0000-0000-7000-8000-000000000001";
const BULK = JSON.stringify({ operation: "cancel", filter: { kind: "other" }, reason: "test" });
const COLLECT = JSON.stringify({ olderThanMs: 604_800_000, reason: "test" });

const SCANS: readonly (readonly [method: string, path: string, body?: string])[] = [
  ["GET", "/api/tasks/counts"],
  ["GET", "/api/tasks?state=dead"],
  ["GET", "/api/tasks?queue=none"],
  ["GET", "/api/tasks?kind=none"],
  ["GET", "/api/tasks?excludeDue=true"],
  ["GET", "/api/tasks/pending"],
  ["GET", "/api/tasks/started"],
  ["GET", "/api/tasks/processed"],
  ["GET", "/api/tasks/cancelled"],
  ["GET", "/api/tasks/expired"],
  ["GET", "/api/tasks/leases"],
  ["GET", `/api/tasks/${TASK}/why`],
  ["POST", "/api/tasks/bulk", BULK],
  ["GET", "/api/leases"],
  ["GET", "/api/leases/active"],
  ["GET", "/api/leases/renewed"],
  ["GET", "/v1/leases?state=live"],
  ["GET", "/v1/leases?renewedOnly=true"],
  ["GET", "/v1/leases?holder=none"],
  ["GET", "/v1/leases?expiringWithinMs=1"],
  ["GET", "/v1/leases?heldForMs=1"],
  ["POST", "/v1/leases/collect", COLLECT],
  ["GET", "/v1/locks"],
  ["GET", "/v1/overview"],
  ["GET", "/v1/elections"],
  ["GET", "/v1/workers"],
  ["GET", "/v1/audit?action=lease.revoke"],
];

async function open(limits = {}) {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { tasks, leases, control } = stores;
  if (!tasks) throw new Error("memory keeps tasks");
  const tenants = openTenants(stores, env, limits);
  onTestFinished(async () => {
    await tenants.app.close();
    await stores.close();
  });
  const ask = async (key: string, method: string, path: string, body?: string, more = {}) => {
    const type = { "content-type": "application/json" };
    const headers = { authorization: `Bearer ${key}`, ...type, ...more };
    const init = { method, headers, ...(body !== undefined && { body }) };
    return tenants.app.fetch(new Request(`http://x${path}`, init));
  };
  const keyOf = async (namespace: string) => (await tenants.newKey(namespace, "admin")).text;
  return { env, tasks, leases, control, ask, keyOf };
}

/** Holds the calls of a tenant until they are let go, and counts those at once. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  let [now, most, calls] = [0, 0, 0];
  const through = async <T>(call: () => Promise<T>): Promise<T> => {
    calls += 1;
    now += 1;
    most = Math.max(most, now);
    try {
      await opened;
      return await call();
    } finally {
      now -= 1;
    }
  };
  return { open, through, figures: () => ({ most, calls }) };
}

/** Lets what this object does for a tenant pass the gate. */
function guard<Store extends object>(
  store: Store,
  methods: readonly (keyof Store)[],
  namespace: string | undefined,
  { through }: ReturnType<typeof gate>,
) {
  for (const method of methods) {
    const call = (store[method] as (of: unknown) => Promise<unknown>).bind(store);
    const guarded = (of: unknown) => {
      const isOthers = JSON.stringify(of)?.includes(`"${namespace}"`) === false;
      return namespace !== undefined && isOthers ? call(of) : through(() => call(of));
    };
    vi.spyOn(store, method as never).mockImplementation(guarded as never);
  }
}

it("of one tenant's reads that scan, one is in the store at a time, and other tenants read meanwhile", async () => {
  const { tasks, leases, control, ask, keyOf } = await open();
  const [own, other] = [await keyOf("a"), await keyOf("b")];
  const task = { id: TASK, kind: "k", queue: "q", task_data: 1 };
  expect((await ask(own, "POST", "/api/tasks", JSON.stringify(task))).status).toBe(201);
  const held = gate();
  guard(tasks, ["list", "counts", "leases"], "a", held);
  guard(leases, ["list"], "a", held);
  guard(leases, ["collect"], undefined, held);
  if (control) guard(control.audit, ["list"], "a", held);
  const answers = SCANS.map((scan) => ask(own, ...scan));
  const [, ...others] = SCANS;
  for (const [method, path, body] of others) {
    if (path.endsWith("/why") || path.endsWith("/collect")) continue;
    expect([path, (await ask(other, method, path, body)).status]).toEqual([path, 200]);
  }
  held.open();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  expect(statuses).toEqual(SCANS.map(() => 200));
  const { most, calls } = held.figures();
  expect(most).toBe(1);
  expect(calls).toBeGreaterThanOrEqual(SCANS.length);
});

it("what is looked up does not wait for scans", async () => {
  const { tasks, ask, keyOf } = await open();
  const key = await keyOf("a");
  const held = gate();
  guard(tasks, ["counts"], "a", held);
  const counts = ask(key, "GET", "/api/tasks/counts");
  await vi.waitUntil(() => held.figures().calls > 0);
  for (const path of ["/api/tasks", `/api/tasks?id=${TASK}`, "/v1/leases", "/v1/audit"]) {
    expect([path, (await ask(key, "GET", path)).status]).toEqual([path, 200]);
  }
  held.open();
  expect((await counts).status).toBe(200);
});

it("refuses more scans than may wait, with Retry-After", async () => {
  const { env, tasks, ask, keyOf } = await open();
  const key = await keyOf("a");
  const held = gate();
  guard(tasks, ["list"], "a", held);
  const paths = Array.from({ length: 40 }, (_, at) => `/api/tasks?kind=k${at}`);
  const answers = paths.map((path) => ask(key, "GET", path));
  const first = await Promise.race(answers);
  expect([first.status, first.headers.get("retry-after")]).toEqual([429, "1"]);
  expect(await first.json()).toMatchObject({ code: "TOO_MANY_REQUESTS" });
  held.open();
  await env.clock.settle();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 429)).toHaveLength(40 - 33);
  expect(held.figures()).toEqual({ most: 1, calls: 33 });
});

it("a scan that waits is no demand: other requests are admitted meanwhile", async () => {
  const { tasks, ask, keyOf } = await open({ inFlight: 4 });
  const key = await keyOf("a");
  const held = gate();
  guard(tasks, ["list"], "a", held);
  const begun = vi.spyOn(Tenant.prototype, "scan");
  onTestFinished(() => begun.mockRestore());
  const scans: Promise<Response>[] = [];
  while (scans.length < 10) {
    scans.push(ask(key, "GET", `/api/tasks?kind=k${scans.length}`));
    await vi.waitUntil(() => begun.mock.calls.length === scans.length);
  }
  expect((await ask(key, "GET", "/v1/pauses")).status).toBe(200);
  held.open();
  expect((await Promise.all(scans)).map(({ status }) => status)).toEqual(Array(10).fill(200));
});

it("has no slots without a limit", async () => {
  const { tasks, ask, keyOf } = await open({ tenantScans: null });
  const key = await keyOf("a");
  const held = gate();
  guard(tasks, ["counts"], "a", held);
  const counts = Array.from({ length: 50 }, () => ask(key, "GET", "/api/tasks/counts"));
  await vi.waitUntil(() => held.figures().calls === 50);
  held.open();
  await Promise.all(counts);
});

it("a collection whose budget ends while it waits is not begun", async () => {
  const { env, tasks, leases, ask, keyOf } = await open();
  const key = await keyOf("a");
  const held = gate();
  guard(tasks, ["counts"], "a", held);
  const collect = vi.spyOn(leases, "collect");
  const begun = vi.spyOn(Tenant.prototype, "scan");
  onTestFinished(() => begun.mockRestore());
  const counts = ask(key, "GET", "/api/tasks/counts");
  await vi.waitUntil(() => held.figures().calls > 0);
  const late = ask(key, "POST", "/v1/leases/collect", COLLECT, { "leasehold-budget-ms": "100" });
  await vi.waitUntil(() => begun.mock.calls.length === 2);
  await env.clock.advance(110);
  held.open();
  expect((await counts).status).toBe(200);
  await env.clock.advance(110);
  const refused = await late;
  expect(refused.status).toBe(503);
  expect(await refused.json()).toMatchObject({ code: "BUDGET_SPENT" });
  expect(collect).not.toHaveBeenCalled();
});

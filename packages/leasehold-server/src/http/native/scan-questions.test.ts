/** Callers who wait for a scan share one that asks the same: whatever differs between two requests is part of the question. */
import { newLeaseId } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished, vi } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { ScanSlots } from "../limits/scan-slots.js";

const NAMESPACE = "a";

/** A tenant with leases in several states, a record of `once` in each, and entries of two actions and targets. */
async function open() {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { leases, once, tasks } = stores;
  const tenants = openTenants(stores, env);
  const begun = vi.spyOn(ScanSlots.prototype, "begin");
  onTestFinished(async () => {
    begun.mockRestore();
    await tenants.app.close();
    await stores.close();
  });
  const { text } = await tenants.newKey(NAMESPACE, "admin");
  const ask = async (path: string, method = "GET", body?: unknown) => {
    const { status, text: answer } = await tenants.ask(text, { method, path, body });
    expect([path, status]).toEqual([path, 200]);
    return answer;
  };
  const hold = async (resource: string, holder: string, ttlMs = 60_000) => {
    const lease = { namespace: NAMESPACE, resource, leaseId: newLeaseId(env.random) };
    const [outcome] = await leases.acquire([{ ...lease, holder, ttlMs }]);
    if (outcome?.status !== "acquired") throw new Error(`not acquired: ${resource}`);
    return { ...lease, token: outcome.token };
  };
  await leases.renew([{ ...(await hold("x/1", "ann")), ttlMs: 60_000 }]);
  await env.clock.advance(5_000);
  await hold("x/2", "bob", 20_000);
  await hold("y/1", "ann", 30_000);
  const ended = await hold("y/2", "bob");
  await leases.renew([{ ...ended, ttlMs: 60_000 }]);
  await leases.release([ended]);
  for (const key of ["k1", "k2", "m1"]) {
    const { token, leaseId } = await hold(`once:${key}`, "ann");
    const grant = { namespace: NAMESPACE, key, leaseId, token };
    if (key === "k2") {
      await once?.fail({ ...grant, error: "no", maxAttempts: null, retryDelayMs: 0 });
    } else await once?.succeed({ ...grant, value: key, keepMs: null });
  }
  for (const name of ["x/1", "x/2"]) {
    const pause = { kind: "resource", name, reason: "r" };
    await ask("/v1/pauses", "PUT", pause);
    await ask(`/v1/pauses?kind=resource&name=${name}&reason=r`, "DELETE");
  }
  let opened = () => {};
  const gate = new Promise<void>((resolve) => {
    opened = resolve;
  });
  /** Sends the requests while another scan occupies the tenant's slot. */
  const together = async (paths: readonly string[]) => {
    const counts = tasks.counts.bind(tasks);
    const held = vi.spyOn(tasks, "counts").mockImplementation(async (namespace) => {
      await gate;
      return counts(namespace);
    });
    begun.mockClear();
    const first = ask("/api/tasks/counts");
    await vi.waitUntil(() => held.mock.calls.length === 1);
    const answers = paths.map((path) => ask(path));
    await vi.waitUntil(() => begun.mock.calls.length === 1 + paths.length);
    opened();
    await first;
    return Promise.all(answers);
  };
  const addTask = async (queue: string) => {
    const body = { queue, task_data: 1 };
    const answer = await tenants.ask(text, { method: "POST", path: "/api/tasks", body });
    return (JSON.parse(answer.text) as { id: string }).id;
  };
  return { ask, together, addTask };
}

it.each<[path: string, queries: readonly string[]]>([
  [
    "/v1/leases",
    [
      "state=live",
      "state=released",
      "state=live&limit=1",
      "state=live&cursor=after:x/2",
      "state=live&prefix=x/",
      "renewedOnly=true",
      "holder=ann",
      "holder=bob",
      "expiringWithinMs=20000",
      "expiringWithinMs=30000",
      "heldForMs=5000",
    ],
  ],
  [
    "/v1/locks",
    [
      "",
      "limit=1",
      "prefix=x/",
      "holder=ann",
      "holder=bob",
      "expiringWithinMs=30000",
      "heldForMs=5000",
      "cursor=after:x/2",
    ],
  ],
  ["/v1/once", ["", "prefix=k", "state=done", "state=failing", "limit=1", "cursor=after:k1"]],
  [
    "/v1/audit",
    [
      "action=resource.pause",
      "action=resource.resume",
      "action=resource.pause&target=x/1",
      "action=resource.pause&target=x/2",
      "action=resource.pause&limit=1",
      "action=resource.pause&action=resource.resume&cursor=3",
    ],
  ],
])("requests to %s that wait for a scan get each their own answer", async (path, queries) => {
  const { ask, together } = await open();
  const paths = queries.map((query) => `${path}${query && `?${query}`}`);
  const alone: string[] = [];
  for (const one of paths) alone.push(await ask(one));
  expect(new Set(alone).size).toBe(paths.length);
  expect(await together(paths)).toEqual(alone);
});

it("so do requests for lists of all grants", async () => {
  const { ask, together } = await open();
  const paths = ["", "/active", "/renewed", "/released"].flatMap((list) => [
    `/api/leases${list}`,
    `/api/leases${list}?limit=1`,
  ]);
  paths.push("/api/leases?status=live", "/api/leases?status=released");
  const alone: string[] = [];
  for (const one of paths) alone.push(await ask(one));
  expect(await together(paths)).toEqual(alone);
});

it("so do questions why tasks of different queues do not run", async () => {
  const { ask, together, addTask } = await open();
  const ids = [await addTask("p"), await addTask("p"), await addTask("q")];
  const paths = ids.map((id) => `/api/tasks/${id}/why`);
  const answers = await together(paths);
  expect(answers).toEqual(await Promise.all(paths.map((path) => ask(path))));
  const counted = answers.map((answer) => /"ahead":(\d+)/.exec(answer)?.[1]);
  expect(counted).toEqual([undefined, "1", undefined]);
});

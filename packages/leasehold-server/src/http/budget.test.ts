/** How long the caller of a request still waits: it counts from the arrival of the request. */
import { createApiKey, newLeaseId, sleep } from "leasehold/internal";
import { BUDGET_HEADER, toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { instead } from "../../../../tests/support/worlds/instead.js";
import { Budget, type RequestScope } from "./request.js";

/** An app whose keys are read in 1,200 ms, and what it has asked the store of the leases. */
async function open() {
  const env = manualEnv();
  const { control, ...stores } = await memory().open(env);
  onTestFinished(() => stores.close());
  if (!control) throw new Error("memory keeps keys");
  const order = { namespace: "a", name: "k", role: "admin" as const, prefixes: [] };
  const by = { actor: "test", reason: null };
  const { text } = await createApiKey(control, env.random, { ...order, lifetimeMs: null }, by);
  const find: typeof control.keys.find = async (id) => {
    await sleep(env.clock, 1_200);
    return control.keys.find(id);
  };
  const { acquire } = stores.leases;
  const timeouts: (number | undefined)[] = [];
  stores.leases.acquire = async (requests, options) => {
    timeouts.push(options?.timeoutMs);
    return acquire.call(stores.leases, requests, options);
  };
  const slow = instead(control, { keys: instead(control.keys, { find }) });
  const { ask } = await openTestApp({ ...stores, control: slow, env, auth: "keys" });
  const post = async (path: string, body: object, budgetMs: number) => {
    const headers = { authorization: `Bearer ${text}`, [BUDGET_HEADER]: `${budgetMs}` };
    const length = `${JSON.stringify(body).length}`;
    const asking = ask("POST", path, body, { headers: { ...headers, "content-length": length } });
    await env.clock.advance(1_200);
    return asking;
  };
  const leaseId = () => toWireLeaseId("r", newLeaseId(env.random));
  return { post, timeouts, leaseId };
}

test.each(["/v1/leases/acquire", "/v1/locks/acquire"])(
  "what has passed before %s does something is spent",
  async (path) => {
    for (const [budgetMs, status] of [
      [1_100, 503],
      [3_000, 200],
    ] as const) {
      const { post, timeouts, leaseId } = await open();
      const single = { resource: "r", ownerId: "h", ttlMs: 5_000 };
      const batch = [{ leaseId: leaseId(), holder: "h", ttlMs: 5_000 }];
      const answer = await post(path, path.includes("locks") ? single : batch, budgetMs);
      expect([answer.status, answer.body.code]).toEqual([
        status,
        status === 200 ? undefined : "BUDGET_SPENT",
      ]);
      expect(timeouts).toEqual(status === 200 ? [1_800] : []);
    }
  },
);

test("a wait ends in time for its answer, and a call to the store takes no less and no more than it may", async () => {
  const { clock } = manualEnv();
  const arrivedMs = clock.monotonic();
  const budgetOf = (budgetMs: number | null) => {
    const known = { arrivedMs, budgetMs };
    const get = (name: string) => known[name as keyof typeof known];
    return new Budget({ get } as unknown as RequestScope, clock);
  };
  await clock.advance(1_000);
  const waits = [null, 31_000, 3_000, 1_200, 1_001].map((ms) => budgetOf(ms).waitMs(30_000));
  expect(waits).toEqual([30_000, 29_750, 1_750, 0, 0]);
  const calls = [null, 20_000, 3_000, 1_001].map((ms) => budgetOf(ms).storeMs());
  expect(calls).toEqual([10_000, 10_000, 2_000, 250]);
  for (const over of [1_000, 0, -1]) {
    expect(() => budgetOf(over).storeMs()).toThrow(
      expect.objectContaining({ code: "BUDGET_SPENT" }),
    );
  }
});

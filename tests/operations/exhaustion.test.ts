/** What one caller can use up, and what the others still get. */
import { expect, it, onTestFinished } from "vitest";
import { createKey, type Role } from "../../packages/leasehold/src/control/index.js";
import { systemRandom } from "../../packages/leasehold/src/env/index.js";
import type { AppOptions } from "../../packages/leasehold-server/src/http/index.js";
import { openTestApp } from "../support/app.js";

async function open(limits: AppOptions["limits"]) {
  const opened = await openTestApp({ auth: "keys", limits: { lateMs: null, ...limits } });
  const { control } = opened.stores;
  if (!control) throw new Error("memory keeps keys");
  const newKey = async (role: Role) => {
    const order = { namespace: "n", name: role, role, prefixes: [""], lifetimeMs: null };
    const { text } = await createKey(control, systemRandom, order, { actor: "test", reason: null });
    const headers = { authorization: `Bearer ${text}` };
    return {
      headers,
      ask: (method: string, path: string, body?: unknown) =>
        opened.ask(method, path, body, { headers }),
    };
  };
  return { ...opened, newKey };
}

it("lets workers claim while a viewer has streams open", async () => {
  const { app, newKey } = await open({ waiters: 2 });
  const [viewer, worker] = [await newKey("viewer"), await newKey("holder")];
  for (const path of ["/v1/activity", "/v1/events?of=leases"]) {
    const { headers } = viewer;
    const { status, body } = await app.fetch(new Request(`http://localhost${path}`, { headers }));
    expect(status).toBe(200);
    const reader = body?.getReader();
    onTestFinished(() => reader?.cancel());
    // It counts from its first read.
    await reader?.read();
  }
  expect((await worker.ask("POST", "/api/tasks/next", { processor: "w" })).status).toBe(204);
});

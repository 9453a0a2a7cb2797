/** Pages of a tenant take turns, so that few of them are written in one turn of the event loop. */
import { nextTurn } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished, vi } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { memory } from "../../../../leasehold/src/stores/memory/index.js";

it.each([
  ["a list of tasks", "/api/tasks", "tasks", "list"],
  ["a list of tasks by id", "/api/tasks?id=a&id=b", "tasks", "list"],
  ["a task", "/api/tasks/a", "tasks", "get"],
  ["the result of a task", "/v1/tasks/a/result", "tasks", "results"],
  ["why a task waits", "/api/tasks/a/why", "tasks", "get"],
  ["a list of leases", "/v1/leases", "leases", "list"],
  ["a list of schedules", "/v1/schedules", "schedules", "list"],
  ["a schedule", "/v1/schedules/a", "schedules", "get"],
  ["a record of once", "/v1/once/a", "once", "get"],
  ["the audit", "/v1/audit", "audit", "list"],
  ["the pauses", "/v1/pauses", "pauses", "list"],
  ["the keys", "/v1/keys", "keys", "list"],
] as const)(
  "%s waits for the turn of its tenant, and for no other tenant",
  async (_, path, port, method) => {
    const env = manualEnv();
    const stores = await memory().open(env);
    let begun = 0;
    let end = () => {};
    const ended = new Promise<void>((resolve) => (end = resolve));
    const { app, newKey } = openTenants(stores, env);
    onTestFinished(async () => {
      await app.close();
      await stores.close();
    });
    const [a, b] = [await newKey("a", "admin"), await newKey("b", "admin")];
    const ask = async ({ text }: { readonly text: string }) => {
      const headers = { authorization: `Bearer ${text}` };
      return (await app.fetch(new Request(`http://x${path}`, { headers }))).status;
    };
    // Keys and limits are read and kept.
    await ask(a);
    await ask(b);
    const ports: Record<string, unknown> = { ...stores, ...stores.control };
    const slow = ports[port] as Record<string, (...values: unknown[]) => Promise<unknown>>;
    const read = slow[method]?.bind(slow);
    slow[method] = async (...values) => {
      begun += 1;
      await ended;
      return read?.(...values);
    };
    const asked = Array.from({ length: 7 }, () => ask(a));
    // Each begins in a turn of the event loop.
    await vi.waitFor(() => expect(begun).toBe(4));
    for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    expect(begun).toBe(4);
    const other = ask(b);
    await vi.waitFor(() => expect(begun).toBe(5));
    end();
    await Promise.all([...asked, other]);
    expect(begun).toBe(8);
  },
);

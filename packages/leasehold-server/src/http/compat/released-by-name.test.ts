/** A release that names a holder, and proves nothing: who has asked for it. */
import { expect, test } from "vitest";
import { newKey } from "../../../../../tests/support/browser/console.js";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import type { LeaseEvent } from "../index.js";

const BODY = { resource: "r", holder: "web-1" };

async function open() {
  const events: LeaseEvent[] = [];
  const onLeaseEvent = (event: LeaseEvent) => void events.push(event);
  const { ask, stores } = await openTestApp({ auth: "keys", onLeaseEvent });
  const caller = async (role: "holder" | "admin") => {
    const key = await newKey(stores, role);
    const headers = { authorization: `Bearer ${key}` };
    return {
      actor: `key:${key.split("_")[1]}`,
      ask: (method: string, path: string, body: object) => ask(method, path, body, { headers }),
    };
  };
  const entries = async () => (await stores.control?.audit.read(0, 100)) ?? [];
  return { events, holder: await caller("holder"), admin: await caller("admin"), entries };
}

test("an admin's release by a holder's name is in the audit, as a revocation is", async () => {
  const { holder, admin, entries } = await open();
  const { body: lease } = await holder.ask("POST", "/api/leases", BODY);
  expect((await admin.ask("DELETE", "/api/leases/release", BODY)).status).toBe(200);
  const [intent, result, ...more] = (await entries()).filter(
    ({ action }) => action === "lease.release",
  );
  expect(more).toEqual([]);
  const act = { actor: admin.actor, target: "r", reason: null };
  expect(intent).toMatchObject({ ...act, phase: "intent" });
  expect(result).toMatchObject({ ...act, phase: "result" });
  expect(JSON.parse(result?.details ?? "")).toEqual({
    intent: intent?.seq,
    holder: "web-1",
    grantId: lease.grantId,
    fencingToken: lease.fencingToken,
    state: "released",
  });

  const { body: next } = await holder.ask("POST", "/api/leases", BODY);
  const path = `/api/leases/${next.id}`;
  expect((await admin.ask("DELETE", path, BODY)).status).toBe(200);
  expect((await entries()).filter(({ action }) => action === "lease.release")).toHaveLength(4);
});

test("a release by a leaseId, and one of a holder's key, are in the log alone", async () => {
  const { holder, admin, entries, events } = await open();
  const before = (await entries()).length;
  const { body: lease } = await admin.ask("POST", "/api/leases", BODY);
  const { leaseId } = lease;
  expect((await admin.ask("DELETE", "/api/leases/release", { leaseId })).status).toBe(200);
  await admin.ask("POST", "/api/leases", BODY);
  expect((await holder.ask("DELETE", "/api/leases/release", BODY)).status).toBe(200);
  expect(await entries()).toHaveLength(before);
  const released = events.filter(({ type }) => type === "released");
  expect(released).toMatchObject([{ actor: admin.actor }, { actor: holder.actor }]);
});

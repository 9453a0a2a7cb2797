/** What /v1/audit shows of entries. */
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";

test("shows details that are no JSON object as they are, between others", async () => {
  const { ask, stores } = await openTestApp();
  const entry = {
    namespace: "default",
    actor: "cli:me",
    action: "lease.revoke",
    target: "r",
    reason: null,
    phase: "done",
  } as const;
  const all = ['{"free":"now","claimedActor":"zoe"}', "edited by hand", "null", "7", "{}"];
  await stores.control?.audit.append(all.map((details) => ({ ...entry, details })));
  const { status, body } = await ask("GET", "/v1/audit");
  expect(status).toBe(200);
  const shown = body.items.map(({ details, claimedActor }: Record<string, unknown>) => [
    details,
    claimedActor,
  ]);
  expect(shown.toReversed()).toEqual([
    [{ free: "now" }, "zoe"],
    [{ unreadable: "edited by hand" }, null],
    [{ unreadable: "null" }, null],
    [{ unreadable: "7" }, null],
    [{}, null],
  ]);
});

test("enters which limits were set, and to what", async () => {
  const { ask } = await openTestApp();
  const change = { leases: 5, tasks: null };
  expect((await ask("PUT", "/v1/limits", { ...change, reason: "agreed" })).status).toBe(200);
  expect((await ask("PUT", "/v1/limits", { ratePerSecond: 7, reason: "more" })).status).toBe(200);
  const { items } = (await ask("GET", "/v1/audit?action=limits.set")).body;
  const entries = items.filter(({ phase }: { phase: string }) => phase !== "intent");
  expect(entries).toMatchObject([
    { target: "default", reason: "more", details: { ratePerSecond: 7 } },
    { target: "default", reason: "agreed", details: change },
  ]);
});

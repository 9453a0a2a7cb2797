/** The routes of a single resource. */
import { describe, expect, test } from "vitest";
import { openTestConsoleApp as open } from "../../../../../tests/support/browser/console-app.js";

describe("a resource", () => {
  const take = async (
    { call, grant }: Awaited<ReturnType<typeof open>>,
    resource: string,
    holder: string,
  ) => {
    const { leaseId, grantId } = grant(resource);
    const outcome = await call("acquire", { leaseId, holder, ttlMs: 5_000, queueMs: 60_000 });
    return { leaseId, grantId, outcome };
  };

  test("has a revoked grant that has no end while it still excludes others", async () => {
    const app = await open();
    await take(app, "r", "first");
    await app.clock.advance(2_000);
    await app.asked("POST", "/v1/leases/revoke", [
      { resource: "r", reason: "check", free: "atExpiry" },
    ]);
    const shown = () => app.get("/v1/resource?name=r");
    expect(await shown()).toMatchObject({
      items: [{ state: "revoked", freeInMs: 3_000, endedAt: null }],
    });
    await app.clock.advance(3_000);
    expect(await shown()).toMatchObject({
      items: [{ state: "revoked", endedAt: "2020-01-01T12:00:05.000Z" }],
    });
  });

  test("is returned with its grants, waiters and refusals", async () => {
    const app = await open();
    const { call, clock, get, asked } = app;
    const first = await take(app, "r", "first");
    await clock.advance(2_000);
    for (let n = 0; n < 2; n += 1) await call("renew", { leaseId: first.leaseId, ttlMs: 5_000 });
    await clock.advance(6_000);
    const second = await take(app, "r", "second");
    await call("renew", { leaseId: first.leaseId, ttlMs: 5_000 });
    await call("release", { leaseId: first.leaseId });
    await clock.advance(1_000);
    const [third, fourth] = [await take(app, "r", "third"), await take(app, "r", "fourth")];
    await call("release", { leaseId: fourth.leaseId });
    await asked("PUT", "/v1/pauses", { kind: "prefix", name: "r", reason: "check" });

    const shown = await get("/v1/resource?name=r");
    expect(shown).toMatchObject({
      resource: "r",
      nextCursor: null,
      history: true,
      forMs: 9_000,
      pause: { kind: "prefix", name: "r", actor: "anyone", reason: "check" },
      waiters: [{ grantId: third.grantId, holder: "third", ahead: 0, askedAt: expect.any(String) }],
      refusals: [{ operation: "renew", reason: "taken", holder: "first", token: 1 }],
      items: [
        { holder: "second", token: 2, state: "live", renewals: 0, endedAt: null },
        {
          holder: "first",
          token: 1,
          state: "expired",
          renewals: 2,
          endedAt: "2020-01-01T12:00:07.000Z",
        },
      ],
    });
    expect(await asked("POST", "/v1/leases/seen", ["r", "unknown"])).toEqual([
      { resource: "r", renewals: 0, waiters: 1, refusals: 1 },
      { resource: "unknown", renewals: null, waiters: 0, refusals: 0 },
    ]);
    expect(await get("/v1/refusals?prefix=r")).toMatchObject({ items: [{ resource: "r" }] });
    expect((await get("/v1/refusals?prefix=x")).items).toEqual([]);
    for (const { leaseId } of [first, second, third]) {
      expect(JSON.stringify(shown)).not.toContain(leaseId.split(".")[1]);
    }
  });

  test("is paged, with each grant once", async () => {
    const app = await open();
    for (let n = 1; n <= 7; n += 1) {
      const { leaseId } = await take(app, "r", `holder-${n}`);
      if (n < 7) await app.call("release", { leaseId });
    }
    for (const limit of [1, 2, 3, 200]) {
      const holders: string[] = [];
      let cursor: string | null = "";
      while (cursor !== null) {
        const from: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
        const page = await app.get(`/v1/resource?name=r&limit=${limit}${from}`);
        expect(page.items.length).toBeLessThanOrEqual(limit);
        holders.push(...page.items.map(({ holder }: { holder: string }) => holder));
        cursor = page.nextCursor;
      }
      expect(holders).toEqual([7, 6, 5, 4, 3, 2, 1].map((n) => `holder-${n}`));
    }
  });

  test("may be a task, and is empty if unknown", async () => {
    const { asked, get } = await open();
    const { id } = await asked("POST", "/api/tasks", { task_data: 1 });
    await asked("POST", "/api/tasks/next", { processor: "w" });
    expect(await get(`/v1/resource?name=task:${id}`)).toMatchObject({
      items: [{ holder: "w", state: "live" }],
      history: true,
    });
    expect(await get("/v1/resource?name=unknown")).toMatchObject({ items: [], pause: null });
  });
});

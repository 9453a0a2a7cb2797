import { expect, it } from "vitest";
import type { LeaseView } from "./port.js";
import { liveWorkers } from "./workers.js";

const lease = (holder: string, resource: string, change: Partial<LeaseView> = {}): LeaseView => ({
  namespace: "n",
  holder,
  resource,
  grantId: "g",
  token: 1,
  state: "live",
  metadata: null,
  ttlMs: 30_000,
  remainingMs: 10_000,
  expiresAt: "2026-01-01T00:01:00.000Z",
  grantedAt: "2026-01-01T00:00:10.000Z",
  renewedAt: null,
  ...change,
});

it("groups live leases by holder, with the latest sign of life", () => {
  const leases = [
    lease("b", "task:2", { renewedAt: "2026-01-01T00:00:30.000Z" }),
    lease("a", "lock", { grantedAt: null }),
    lease("b", "task:1", { grantedAt: "2026-01-01T00:00:20.000Z" }),
    ...(["expired", "released", "revoked"] as const).map((state) => lease("c", "old", { state })),
  ];
  expect(liveWorkers(leases)).toEqual([
    { holder: "a", lastHeartbeatAt: null, holds: ["lock"] },
    { holder: "b", lastHeartbeatAt: "2026-01-01T00:00:30.000Z", holds: ["task:2", "task:1"] },
  ]);
  expect(liveWorkers(leases.reverse())[1]?.lastHeartbeatAt).toBe("2026-01-01T00:00:30.000Z");
  expect(liveWorkers([])).toEqual([]);
  for (const holders of [
    ["a", "b", "c"],
    ["c", "b", "a"],
    ["b", "c", "a"],
  ]) {
    const workers = liveWorkers(holders.map((holder) => lease(holder, "r")));
    expect(workers.map(({ holder }) => holder)).toEqual(["a", "b", "c"]);
  }
});

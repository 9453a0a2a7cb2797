import { expect, it } from "vitest";
import type { Logger } from "../env/index.js";
import { connect } from "../index.js";

it("logs acquired, contended, renewed and lost leases with operation, token and latency", async () => {
  const lines: Record<string, unknown>[] = [];
  const log = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, message, ...fields });
  const logger = Object.fromEntries(
    ["debug", "info", "warn", "error"].map((level) => [level, log(level)]),
  ) as unknown as Logger;
  const first = await connect("memory:lease-log", { logger, holder: "web-1" });
  const second = await connect("memory:lease-log", { logger, holder: "web-2" });
  const lease = await first.acquire("billing", { ttlMs: 60_000 });
  expect(await second.tryAcquire("billing")).toBeNull();
  await lease.renew();
  await first.revoke("billing", { free: "now" });
  await expect(lease.renew()).rejects.toThrow("revoked");
  await Promise.all([first.close(), second.close()]);

  const durationMs = expect.any(Number);
  const grant = {
    resource: "billing",
    grantId: lease.grantId,
    fencingToken: lease.token,
  };
  const own = lines.filter(({ event }) => `${event as string}`.startsWith("lock_"));
  expect(own).toMatchObject([
    { level: "info", event: "lock_acquired", operation: "acquire", ...grant, ownerId: "web-1" },
    { level: "debug", event: "lock_contended", operation: "acquire", ownerId: "web-2" },
    { level: "debug", event: "lock_renewed", operation: "renew", ...grant, ttlSeconds: 60 },
    { level: "info", event: "lock_renewal_failed", ...grant, reason: "revoked" },
  ]);
  for (const line of own) expect(line).toMatchObject({ durationMs, resource: "billing" });
  expect(lines).toContainEqual(
    expect.objectContaining({ level: "warn", event: "lease_lost", token: lease.token }),
  );
  // No lease id is in the log.
  expect(JSON.stringify(lines)).not.toContain(lease.leaseId);
});

import os from "node:os";
import { afterEach, expect, it, vi } from "vitest";
import { checkName } from "../core/names.js";
import { manualEnv } from "../testing/index.js";
import { grantIdOf, newHolder, newLeaseId, taskIds, taskLeaseId, withoutLeaseIds } from "./ids.js";

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

it.each([
  ["web-3", "web-3"],
  ["ip-10-0-0-1.eu.internal", "ip-10-0-0-1.eu.internal"],
  ["Jürgens Mac\0", "J-rgens-Mac-"],
  ["x".repeat(300), "x".repeat(63)],
  ["", "host"],
])("%# names a holder after its host, its process and chance", (host, shown) => {
  vi.spyOn(os, "hostname").mockReturnValue(host);
  const { random } = manualEnv();
  const [one, other] = [newHolder(random), newHolder(random)];
  expect(one.replace(/[0-9a-f]{12}$/, "")).toBe(`${shown}-${process.pid}-`);
  expect(other).not.toBe(one);
  expect(one.length).toBeLessThanOrEqual(87);
  expect(() => checkName("holder", one)).not.toThrow();
  // Logs show it whole.
  expect(withoutLeaseIds(one)).toBe(one);
});

it("names a holder where there is no process", () => {
  vi.stubGlobal("process", undefined);
  expect(newHolder(manualEnv().random)).toMatch(/^client-[0-9a-f]{12}$/);
});

it("makes task ids that grow, also within a millisecond and while the wall clock steps back", () => {
  const { clock, random } = manualEnv();
  const next = taskIds(clock, random);
  const ids = Array.from({ length: 2_000 }, (_, index) => {
    if (index === 1_000) clock.jumpWall(-60_000);
    return next();
  });
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

it("makes task ids as RFC 9562 defines UUIDs of version 7", () => {
  const { clock } = manualEnv();
  // Its example, in appendix A.6.
  const wall = () => 0x017f22e279b0;
  const seq = 0xcc3 * 2 ** 20 + (0x18c4 << 6) + 0x37;
  const random = {
    float: () => seq / 2 ** 31,
    bytes: () =>
      Uint8Array.from("0123456789abcdef0123fc0c0c07398f".match(/../g) ?? [], (hex) =>
        Number(`0x${hex}`),
      ),
  };
  expect(taskIds({ ...clock, wall }, random)()).toBe("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
});

it("names grants in public by 16 hex digits of their SHA-256", () => {
  // printf 00112233445566778899aabbccddeeff | sha256sum
  expect(grantIdOf("00112233445566778899aabbccddeeff")).toBe("5947d7c33d783f94");
  expect(newLeaseId(manualEnv().random)).toMatch(/^[0-9a-f]{32}$/);
  expect(taskLeaseId("c", "t")).toBe(taskLeaseId("c", "t"));
  expect(taskLeaseId("c", "t")).not.toBe(taskLeaseId("c", "u"));
});

it("takes lease ids out of texts, and leaves public names in", () => {
  const { clock, random } = manualEnv();
  const [leaseId, grantId, taskId] = [newLeaseId(random), grantIdOf("x"), taskIds(clock, random)()];
  const text = (id: string) =>
    `/b3JkZXJz.${id}/renew "${id}" ${id}${id} a${id}b ${grantId} ${taskId}`;
  for (const id of [leaseId, leaseId.toUpperCase()]) {
    expect(withoutLeaseIds(text(id))).toBe(
      `/b3JkZXJz.[lease]/renew "[lease]" [lease] [lease] ${grantId} ${taskId}`,
    );
  }
});

import os from "node:os";
import { afterEach, expect, it, vi } from "vitest";
import { checkName } from "../lease/names.js";
import { manualEnv } from "../testing/index.js";
import {
  claimDigestOf,
  grantIdOf,
  holderLeaseId,
  newHolder,
  newLeaseId,
  taskIds,
  taskLeaseId,
  withoutLeaseIds,
} from "./ids.js";

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

it("names grants in public by the first 16 of their 48 hex digits", () => {
  expect(grantIdOf("0123456789abcdef00112233445566778899aabbccddeeff")).toBe("0123456789abcdef");
  const { random } = manualEnv();
  const [one, other] = [newLeaseId(random), newLeaseId(random)];
  expect(one).toMatch(/^[0-9a-f]{48}$/);
  expect(other.slice(0, 16)).not.toBe(one.slice(0, 16));
  expect(other.slice(16)).not.toBe(one.slice(16));
});

it("derives lease ids of tasks from the claim, and of named grants from the holder", () => {
  const [task, another] = [0xab, 2 ** 32 + 1];
  // printf c | sha256sum
  const digest = claimDigestOf("c");
  expect(digest).toBe("2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394");
  const ids = [taskLeaseId(digest, task), taskLeaseId(digest, another)] as const;
  const named = holderLeaseId("n", "r", "h", "nonce");
  for (const id of [...ids, named]) expect(id).toMatch(/^[0-9a-f]{48}$/);
  expect(grantIdOf(ids[0])).toBe("2e7d2c03000000ab");
  expect(ids[0].slice(16)).toBe(digest.slice(16));
  expect(grantIdOf(ids[1])).toBe("2e7d2c0300000001");
  expect(taskLeaseId(claimDigestOf("d"), task).slice(16)).not.toBe(ids[0].slice(16));
  expect(holderLeaseId("n", "r", "h", "another")).not.toBe(named);
});

it("takes lease ids out of texts, and leaves public names in", () => {
  const { clock, random } = manualEnv();
  const [leaseId, grantId, taskId] = [
    newLeaseId(random),
    grantIdOf(newLeaseId(random)),
    taskIds(clock, random)(),
  ];
  const text = (id: string) =>
    `/b3JkZXJz.${id}/renew "${id}" ${id}${id} a${id}b ${grantId} ${taskId}`;
  for (const id of [leaseId, leaseId.toUpperCase()]) {
    expect(withoutLeaseIds(text(id))).toBe(
      `/b3JkZXJz.[lease]/renew "[lease]" [lease] [lease] ${grantId} ${taskId}`,
    );
  }
});

it("keeps neither the secret of a key nor its checksum in logs", () => {
  const key = `lh_0123456789ab_${"0f".repeat(16)}`;
  expect(withoutLeaseIds(`of ${key}aB3xYz, ${key}`)).toBe(
    "of lh_0123456789ab_[lease], lh_0123456789ab_[lease]",
  );
});

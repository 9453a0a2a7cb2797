import { expect, it } from "vitest";
import { manualEnv } from "../testing/index.js";
import { grantIdOf, newLeaseId, taskIds, taskLeaseId, withoutLeaseIds } from "./ids.js";

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

import { expect, test } from "vitest";
import { PROBLEMS, problemType } from "./problems.js";

test("each problem has a type of its own and a status of an error", () => {
  const codes = Object.keys(PROBLEMS) as (keyof typeof PROBLEMS)[];
  expect(new Set(codes.map(problemType)).size).toBe(codes.length);
  expect(problemType("LEASE_EXPIRED")).toBe("urn:leasehold:problem:lease-expired");
  for (const code of codes) expect(PROBLEMS[code].status).toBeGreaterThanOrEqual(400);
});

/** A share of `npm run fuzz`: the same cases each time, and others each time. */
import { randomInt } from "node:crypto";
import { expect, it } from "vitest";
import { runFuzz } from "../fuzz/campaign.js";
import { Chance } from "../fuzz/chance.js";
import type { Finding } from "../fuzz/server.js";

async function fuzz(options: Parameters<typeof runFuzz>[0]) {
  const findings: Finding[] = [];
  const result = await runFuzz({ ...options, onFinding: (finding) => findings.push(finding) });
  // First of all, because these say most.
  expect(findings).toEqual([]);
  return result;
}

const SHARE = { schema: 1_000, raw: 280 };

it("answers requests from its own document and bytes from raw sockets, right or not, as it documents", async () => {
  const { good, leaks, statuses, overHttp } = await fuzz({ ...SHARE, seed: 20_260_101 });
  expect(good.faults).toEqual([]);
  expect(good.requests).toBeGreaterThan(8);
  expect(leaks).toEqual([]);
  expect(overHttp).toBe(50);
  // It reaches beyond the first checks.
  for (const status of [200, 201, 204, 400, 401, 403, 404, 405, 409, 413, 415, 422]) {
    expect(statuses).toHaveProperty(`${status}`);
  }
});

it("does so for cases that nobody has seen before", async () => {
  const seed = randomInt(2 ** 31);
  console.log(
    `seed ${seed}: npm run fuzz -- --seed ${seed} --schema ${SHARE.schema} --raw ${SHARE.raw}`,
  );
  const { good, leaks } = await fuzz({ ...SHARE, seed });
  expect({ faults: good.faults, leaks }).toEqual({ faults: [], leaks: [] });
});

it("repeats one case alone by its name", async () => {
  const { schema, raw, findings } = await fuzz({ ...SHARE, seed: 3, only: "schema:17" });
  expect({ schema, raw, findings }).toEqual({ schema: 1, raw: 0, findings: 0 });
  const choices = (chance: Chance) => Array.from({ length: 20 }, () => chance.below(1_000));
  expect(choices(new Chance(3, "raw", 17))).toEqual(choices(new Chance(3, "raw", 17)));
  expect(choices(new Chance(3, "raw", 17))).not.toEqual(choices(new Chance(3, "raw", 18)));
});

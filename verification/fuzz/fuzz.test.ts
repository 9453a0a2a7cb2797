/** A share of `npm run verify -- fuzz`: the same cases each time, and others each time. */
import { randomInt } from "node:crypto";
import { expect, it } from "vitest";
import { repetitions } from "../../tests/support/runner/full.js";
import { OpenApi } from "../../tests/support/server/openapi.js";
import { leaks, runFuzz } from "./campaign.js";
import { Chance } from "./chance.js";
import { Judge } from "./judge.js";
import type { Finding } from "./server.js";
import { openTarget } from "./target.js";

async function fuzz(options: Parameters<typeof runFuzz>[0]) {
  const findings: Finding[] = [];
  const result = await runFuzz({ ...options, onFinding: (finding) => findings.push(finding) });
  // First of all, because these say most.
  expect(findings).toEqual([]);
  return result;
}

const SHARE = { schema: 1_000, raw: 140 };
const OTHERS = {
  schema: repetitions({ usual: 100, full: 200 }),
  raw: repetitions({ usual: 30, full: 60 }),
};

it("answers requests from its own document and bytes from raw sockets, right or not, as it documents", async () => {
  const { good, leaks, statuses, overHttp } = await fuzz({ ...SHARE, seed: 20_260_102 });
  expect(good.faults).toEqual([]);
  expect(good.requests).toBeGreaterThan(8);
  expect(leaks).toEqual([]);
  expect(overHttp).toBe(50);
  // It reaches beyond the first checks.
  for (const status of [200, 201, 204, 400, 401, 403, 404, 405, 409, 413, 415, 422]) {
    expect(statuses).toHaveProperty(`${status}`);
  }
});

it("does so for cases from a random seed", async () => {
  const seed = randomInt(2 ** 31);
  console.log(
    `seed ${seed}: npm run verify -- fuzz --seed ${seed} --schema ${OTHERS.schema} --raw ${OTHERS.raw}`,
  );
  const { good, leaks } = await fuzz({ ...OTHERS, seed });
  expect({ faults: good.faults, leaks }).toEqual({ faults: [], leaks: [] });
});

it("repeats one case alone by its name", async () => {
  const { schema, raw, findings } = await fuzz({ ...SHARE, seed: 3, only: "schema:17" });
  expect({ schema, raw, findings }).toEqual({ schema: 1, raw: 0, findings: 0 });
  const choices = (chance: Chance) => Array.from({ length: 20 }, () => chance.below(1_000));
  expect(choices(new Chance(3, "raw", 17))).toEqual(choices(new Chance(3, "raw", 17)));
  expect(choices(new Chance(3, "raw", 17))).not.toEqual(choices(new Chance(3, "raw", 18)));
});

it("takes what grows with the cases for a leak, and not what is compiled or filled once", () => {
  const holds = (mebibytes: number, more = {}) => ({
    heap: mebibytes * 2 ** 20,
    timers: 1,
    handles: 3,
    ...more,
  });
  expect(leaks(holds(50), holds(80), holds(82))).toEqual([]);
  expect(leaks(holds(50), holds(63), holds(76))).toEqual(["heap: 13 MiB more in the second half"]);
  expect(leaks(holds(50), holds(50), holds(50, { timers: 2, handles: 2 }))).toEqual([
    "timers: 1 before, 2 after",
  ]);
});

it("finds fault with answers that a server should not give", async () => {
  const target = await openTarget("memory:", {});
  try {
    const answer = await target.app.fetch(new Request("http://localhost/openapi.json"));
    const openapi = new OpenApi((await answer.json()) as Record<string, unknown>);
    const { admin } = target.keys;
    const judge = new Judge(openapi, [admin]);
    const health = openapi.find("GET", "/healthz");
    const problem = (
      status: number,
      code: string,
      detail = "no",
      type = "application/problem+json",
    ) => {
      const urn = `urn:leasehold:problem:${code.toLowerCase().replaceAll("_", "-")}`;
      const body = { type: urn, title: "t", status, detail, code, requestId: "r" };
      return judge.faults({ status, mediaType: type, text: JSON.stringify(body) }, undefined);
    };
    const json = (text: string, status = 200) =>
      judge.faults({ status, mediaType: "application/json", text }, health);
    expect(problem(422, "INVALID_REQUEST")).toEqual([]);
    expect(problem(503, "CLOSING")).toEqual([]);
    expect(problem(500, "INTERNAL")).toMatchObject([expect.stringContaining("answered 500")]);
    expect(problem(504, "OUTCOME_UNKNOWN")).toMatchObject([
      expect.stringContaining("answered 504"),
    ]);
    expect(problem(409, "INVALID_REQUEST")).toEqual(["INVALID_REQUEST with status 409"]);
    expect(problem(404, "NO_SUCH_CODE")).not.toEqual([]);
    expect(problem(422, "INVALID_REQUEST", "no", "text/html")).toEqual(["422 as text/html"]);
    expect(problem(422, "INVALID_REQUEST", "Error: x\n    at f (file.js:1:2)")).toHaveLength(1);
    expect(problem(422, "INVALID_REQUEST", `not ${admin.split("_")[2]}`)).toEqual([
      "a key is in the answer",
    ]);
    expect(json('{"status":"ok","version":"1"}')).toEqual([]);
    expect(json('{"status":"ok","version":"1","more":1}')).toHaveLength(1);
    expect(json('{"status":"ok","version":"1"}', 201)).toHaveLength(1);
    expect(json("<html>")).toHaveLength(1);
  } finally {
    await target.close();
  }
});

import { expect, it } from "vitest";
import type { HistoryEntry } from "./entry.js";
import { checkGrants } from "./grants.js";

const REQUEST = { namespace: "default", holder: "h", ttlMs: 100 };

function acquired(invokeMs: number, leaseId: string, token: number, resource = "r"): HistoryEntry {
  return {
    client: "c",
    operation: "acquire",
    request: { ...REQUEST, resource, leaseId },
    invokeMs,
    returnMs: invokeMs + 1,
    result: "ok",
    outcome: { status: "acquired", token, ttlMs: 100, remainingMs: 100, expiresAt: null },
  };
}

function revoke(invokeMs: number, expectedToken?: number): HistoryEntry {
  const expected = expectedToken === undefined ? {} : { expectedToken };
  return {
    client: "c",
    operation: "revoke",
    request: { namespace: "default", resource: "r", free: "now", ...expected },
    invokeMs,
    returnMs: null,
    result: "unknown",
    outcome: null,
    error: "lost",
  };
}

const properties = (history: HistoryEntry[]) =>
  checkGrants(history).violations.map(({ property }) => property);

it("tells the properties apart", () => {
  expect(properties([acquired(0, "A", 1), acquired(200, "B", 2)])).toEqual([]);
  expect(properties([acquired(0, "A", 1), acquired(50, "B", 2)])).toEqual(["overlap"]);
  expect(properties([acquired(0, "A", 1), acquired(200, "B", 1)])).toEqual(["unique"]);
  expect(properties([acquired(0, "A", 2), acquired(200, "B", 1)])).toEqual(["order", "overlap"]);
});

it("also of grants that do not follow each other", () => {
  const long = acquired(0, "A", 1);
  const renewed = {
    ...acquired(50, "A", 1),
    operation: "renew",
    outcome: { status: "renewed", token: 1, ttlMs: 400, remainingMs: 400, expiresAt: null },
  } as HistoryEntry;
  const history = [acquired(300, "C", 3), acquired(101, "B", 2), long, renewed];
  expect(properties(history)).toEqual(["overlap", "overlap"]);
  expect(checkGrants(history).violations[0]).toMatchObject({
    namespace: "default",
    resource: "r",
    explanation: [
      expect.stringContaining("token 1"),
      expect.stringContaining("token 2"),
      "the first is held until 450.0 at least",
    ],
  });
});

it("lets a revoke without an answer explain one overlap, once", () => {
  const three = [acquired(0, "A", 1), acquired(50, "B", 2), acquired(60, "C", 3)];
  expect(properties([...three, revoke(40)])).toEqual(["overlap"]);
  expect(properties([...three, revoke(40), revoke(45)])).toEqual([]);
  expect(properties([...three, revoke(70), revoke(80)])).toEqual(["overlap", "overlap"]);
  expect(properties([...three, revoke(40, 1), revoke(55, 2)])).toEqual([]);
});

it("takes what such a revoke has ended for ended also where grants follow that were released", () => {
  const release = (invokeMs: number, leaseId: string): HistoryEntry => ({
    client: "c",
    operation: "release",
    request: { namespace: "default", resource: "r", leaseId },
    invokeMs,
    returnMs: invokeMs + 1,
    result: "ok",
    outcome: { status: "released" },
  });
  const before = [acquired(0, "A", 1), revoke(40), acquired(50, "B", 2)];
  expect(properties([...before, release(52, "B"), acquired(60, "C", 3)])).toEqual([]);
  expect(properties([...before, acquired(60, "C", 3)])).toEqual(["overlap"]);
});

it("takes the first of several answers, releases and revokes, in whatever order they come", () => {
  const releaseAt = (invokeMs: number): HistoryEntry => ({
    client: "c",
    operation: "release",
    request: { namespace: "default", resource: "r", leaseId: "A" },
    invokeMs,
    returnMs: invokeMs + 1,
    result: "ok",
    outcome: { status: "released" },
  });
  const [first, next] = [acquired(0, "A", 1), acquired(20, "B", 2)];
  for (const releases of [
    [releaseAt(10), releaseAt(50)],
    [releaseAt(50), releaseAt(10)],
  ]) {
    expect(properties([first, ...releases, next])).toEqual([]);
  }
  // B had its answer while A was held; a repetition of B came after A's end.
  const [early, again] = [acquired(50, "B", 2), acquired(140, "B", 2)];
  for (const answers of [
    [early, again],
    [again, early],
  ]) {
    expect(properties([first, ...answers])).toEqual(["overlap"]);
  }
  const three = [first, acquired(50, "B", 2), acquired(60, "C", 3)];
  expect(properties([...three, revoke(55), revoke(40)])).toEqual([]);
});

it("counts a renewal that comes before the grant, and compares tokens with all that were asked before", () => {
  const renewed = {
    ...acquired(50, "A", 1),
    operation: "renew",
    outcome: { status: "renewed", token: 1, ttlMs: 400, remainingMs: 400, expiresAt: null },
  } as HistoryEntry;
  expect(properties([renewed, acquired(0, "A", 1), acquired(300, "B", 2)])).toEqual(["overlap"]);
  const backwards = [acquired(300, "A", 1), acquired(100, "B", 2), acquired(200, "C", 3)];
  expect(properties(backwards)).toEqual(["order", "overlap", "order", "overlap"]);
});

it("reports 100 violations at most, of all resources together", () => {
  const history = ["r", "s"].flatMap((resource) =>
    Array.from({ length: 81 }, (_, at) => acquired(at * 10, `${at}`, at + 1, resource)),
  );
  const { violations } = checkGrants(history);
  expect(violations.map(({ resource }) => resource)).toEqual([
    ...Array(80).fill("r"),
    ...Array(20).fill("s"),
  ]);
});

it("judges hundreds of thousands of grants in one pass, and finds the one that is wrong", () => {
  const grants = 200_000;
  const resources = 100;
  function* long(): Generator<HistoryEntry> {
    for (let at = 0; at < grants; at++) {
      const round = Math.floor(at / resources);
      // One comes 1.5 ms before the end of the one before.
      const early = at === 77_777 ? 2.5 : 0;
      yield acquired(round * 100 - early, `lease ${at}`, round + 1, `r${at % resources}`);
    }
  }
  const begin = performance.now();
  const report = checkGrants(long());
  const seconds = (performance.now() - begin) / 1_000;
  console.info(`${Math.round(grants / seconds).toLocaleString("en")} grants a second`);
  expect(report).toMatchObject({ grants, resources });
  expect(report.violations.map(({ property, resource }) => [property, resource])).toEqual([
    ["overlap", "r77"],
  ]);
});

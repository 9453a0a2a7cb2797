import { describe, expect, it } from "vitest";
import {
  acquire,
  acquired,
  ended,
  held,
  KEY,
  lost,
  notHeld,
  release,
  released,
  renew,
  renewed,
  revoke,
  revoked,
} from "../../../../../tests/support/worlds/history-entries.js";
import { fromJsonLines, type HistoryEntry, toJsonLines } from "./entry.js";
import { checkGrants } from "./grants.js";
import { checkLinearizability } from "./linearizability.js";

const verdict = (history: HistoryEntry[]) => checkLinearizability(history).verdict;

describe("histories that are right", () => {
  const good: Record<string, HistoryEntry[]> = {
    "a grant, its renewal and its release": [
      acquire([0, 1], "A", acquired(1)),
      renew([50, 51], "A", renewed(1)),
      acquire([120, 121], "B", held("A", 30)),
      release([130, 131], "A", released),
      acquire([132, 133], "B", acquired(2)),
    ],
    "a takeover after expiry": [
      acquire([0, 1], "A", acquired(1)),
      acquire([101, 102], "B", acquired(2)),
      renew([103, 104], "A", lost("taken")),
      release([105, 106], "A", notHeld),
    ],
    "an acquire whose answer was lost has taken effect": [
      acquire([0, 1], "A", "unknown"),
      acquire([10, 11], "B", held("A")),
      renew([20, 21], "A", renewed(7)),
      release([30, 31], "A", released),
      acquire([40, 41], "B", acquired(8)),
    ],
    "an acquire whose answer was lost has not taken effect": [
      acquire([0, 1], "A", "unknown"),
      acquire([10, 11], "B", acquired(1)),
    ],
    "a release whose answer was lost takes effect late": [
      acquire([0, 1], "A", acquired(1)),
      release([10, 11], "A", "unknown"),
      renew([20, 21], "A", renewed(1)),
      acquire([30, 31], "B", acquired(2)),
    ],
    "an acquire is repeated with its lease id": [
      acquire([0, 1], "A", "unknown"),
      acquire([10, 11], "A", acquired(3, 95)),
      acquire([20, 21], "A", acquired(3, 83)),
    ],
    "a repetition of what an operator has ended": [
      acquire([0, 1], "A", acquired(1)),
      revoke([10, 11], { expectedToken: 1 }, revoked(1)),
      acquire([20, 21], "A", ended),
      acquire([22, 23], "B", acquired(2)),
    ],
    "a revoke at expiry keeps others out, until the holder hands back": [
      acquire([0, 1], "A", acquired(1)),
      revoke([10, 11], { free: "atExpiry" }, revoked(1, 90)),
      renew([20, 21], "A", lost("revoked")),
      acquire([30, 31], "B", held("A", 70)),
      release([40, 41], "A", released),
      acquire([50, 51], "B", acquired(2)),
    ],
    "a revoke names the token that a lost answer had": [
      acquire([0, 1], "A", "unknown"),
      revoke([10, 11], { expectedToken: 5 }, { status: "otherToken" }),
      revoke([20, 21], { expectedToken: 6 }, revoked(6)),
      acquire([30, 31], "B", acquired(7)),
    ],
    "a revoke that names the token of a lost answer, and came after a later grant": [
      acquire([0, 1], "A", acquired(7)),
      acquire([200, 201], "B", "unknown"),
      acquire([270, 310], "C", acquired(9)),
      revoke([230, 400], { expectedToken: 8 }, { status: "otherToken" }),
      acquire([250, 390], "D", held("B", 18)),
      acquire([311, 340], "E", held("C", 90)),
    ],
    "requests that overlap, in the order that fits": [
      acquire([0, 40], "A", held("B")),
      acquire([5, 35], "B", acquired(4)),
      acquire([10, 30], "C", held("B")),
    ],
    "a grant that expires within a long request": [
      acquire([0, 1], "A", acquired(1)),
      acquire([50, 150], "B", acquired(2)),
      renew([60, 140], "A", lost("expired")),
      acquire([70, 90], "C", held("A")),
    ],
    "what was not carried out": [
      acquire([0, 1], "A", "fail"),
      acquire([2, 3], "B", acquired(1)),
      release([4, 5], "B", "fail"),
      renew([6, 7], "B", renewed(1)),
    ],
  };
  it.each(Object.entries(good))("%s", (_, history) => {
    const { resources } = checkLinearizability(history);
    expect(resources.map(({ verdict, explanation }) => [verdict, explanation])).toEqual([
      ["linearizable", []],
    ]);
    expect(checkGrants(history).violations).toEqual([]);
  });
});

describe("histories that are wrong", () => {
  const bad: Record<string, readonly [HistoryEntry[], caughtByGrants?: true]> = {
    "two grants at a time": [
      [acquire([0, 1], "A", acquired(1)), acquire([10, 11], "B", acquired(2))],
      true,
    ],
    "a grant just before the last one's expiry": [
      [acquire([0, 0.1], "A", acquired(1)), acquire([96, 96.1], "B", acquired(2))],
      true,
    ],
    "a token that goes back": [
      [
        acquire([0, 1], "A", acquired(5)),
        release([2, 3], "A", released),
        acquire([4, 5], "B", acquired(4)),
      ],
      true,
    ],
    "the same token twice": [
      [
        acquire([0, 1], "A", acquired(5)),
        release([2, 3], "A", released),
        acquire([4, 5], "B", acquired(5)),
      ],
      true,
    ],
    "a renewal after a takeover": [
      [
        acquire([0, 1], "A", acquired(1)),
        acquire([102, 103], "B", acquired(2)),
        renew([110, 111], "A", renewed(1)),
      ],
      true,
    ],
    "a renewal after expiry": [
      [acquire([0, 1], "A", acquired(1)), renew([110, 111], "A", renewed(1))],
    ],
    "a renewal with another token": [
      [acquire([0, 1], "A", acquired(1)), renew([10, 11], "A", renewed(2))],
    ],
    "a renewal that shortens": [
      [acquire([0, 1], "A", acquired(1)), renew([10, 11], "A", renewed(1, 40))],
    ],
    "a release frees another's grant": [
      [
        acquire([0, 1], "A", acquired(1)),
        release([2, 3], "A", released),
        acquire([4, 5], "B", acquired(2)),
        release([6, 7], "A", released),
        acquire([8, 9], "C", acquired(3)),
      ],
      true,
    ],
    "a retry undoes a revoke": [
      [
        acquire([0, 1], "A", acquired(1)),
        revoke([10, 11], {}, revoked(1)),
        acquire([20, 21], "A", acquired(1, 80)),
      ],
    ],
    "a retry makes a second grant": [
      [acquire([0, 1], "A", acquired(1)), acquire([10, 11], "A", acquired(2))],
      true,
    ],
    "a revoke of another token": [
      [acquire([0, 1], "A", acquired(1)), revoke([10, 11], { expectedToken: 2 }, revoked(1))],
    ],
    "a grant although a revoke waits for the expiry": [
      [
        acquire([0, 1], "A", acquired(1)),
        revoke([10, 11], { free: "atExpiry" }, revoked(1, 90)),
        acquire([20, 21], "B", acquired(2)),
      ],
      true,
    ],
    "held without a grant": [[acquire([0, 1], "A", held("B"))]],
    "held after expiry": [[acquire([0, 1], "A", acquired(1)), acquire([110, 111], "B", held("A"))]],
    "held for longer than was granted": [
      [acquire([0, 1], "A", acquired(1)), acquire([50, 51], "B", held("A", 80))],
    ],
    "lost too early": [[acquire([0, 1], "A", acquired(1)), renew([50, 51], "A", lost("expired"))]],
    "an unknown acquire takes effect twice": [
      [
        acquire([0, 1], "A", "unknown"),
        acquire([10, 11], "B", held("A")),
        acquire([120, 121], "B", acquired(5)),
        release([122, 123], "B", released),
        acquire([124, 125], "C", held("A")),
      ],
    ],
    "an unknown request takes effect before it was sent": [
      [acquire([0, 1], "B", held("A")), acquire([2, 3], "A", "unknown")],
    ],
  };
  it.each(Object.entries(bad))("%s", (_, [history, caughtByGrants]) => {
    const { resources } = checkLinearizability(history);
    expect(resources[0]?.verdict).toBe("not");
    expect(resources[0]?.explanation.length).toBeGreaterThan(2);
    if (caughtByGrants) expect(checkGrants(history).violations).not.toEqual([]);
  });

  it("is explained by the shortest wrong prefix", () => {
    const history = [
      acquire([0, 1], "A", acquired(1)),
      acquire([10, 11], "B", acquired(2)),
      acquire([10, 30], "D", held("B")),
      acquire([20, 21], "C", held("B")),
    ];
    const [found] = checkLinearizability(history).resources;
    expect(found?.explanation).toEqual([
      '0.0..1.0 c acquire "r" leaseId A, holder holder A, ttlMs 100: acquired, token 1, ttlMs 100, remainingMs 100',
      '10.0..11.0 c acquire "r" leaseId B, holder holder B, ttlMs 100: acquired, token 2, ttlMs 100, remainingMs 100',
      '10.0.. c acquire "r" leaseId D, holder holder D, ttlMs 100: unknown, no answer yet',
      expect.stringMatching(/^no order explains: 10\.0\.\.11\.0 c acquire "r" leaseId B/),
      "the most that is explained ends with grant A of holder A, token 1, not ended, with its end at 99.0..102.0",
    ]);
  });

  it("is judged for each resource by itself", () => {
    const other = { ...KEY, resource: "other" };
    const elsewhere = (entry: HistoryEntry) =>
      ({ ...entry, request: { ...entry.request, ...other } }) as HistoryEntry;
    const history = [
      acquire([0, 1], "A", acquired(1)),
      elsewhere(acquire([2, 3], "B", acquired(1))),
      acquire([4, 5], "C", acquired(2)),
    ];
    const found = checkLinearizability(history);
    expect(found.verdict).toBe("not");
    expect(found.resources.map((one) => [one.resource, one.verdict, one.requests])).toEqual([
      ["r", "not", 2],
      ["other", "linearizable", 1],
    ]);
  });
});

it("allows for what a clock may be off, and no more", () => {
  const history = [acquire([0, 0], "A", acquired(1)), acquire([90, 90], "B", acquired(2))];
  const judge = (toleranceMs: number) => checkLinearizability(history, { toleranceMs }).verdict;
  // The end is set and looked at: it may be off twice.
  expect([judge(1), judge(4.9), judge(5)]).toEqual(["not", "not", "linearizable"]);
  expect(checkGrants(history, { toleranceMs: 9 }).violations).toHaveLength(1);
  expect(checkGrants(history, { toleranceMs: 10 }).violations).toHaveLength(0);
});

it("lets a store round ttls up that says so", () => {
  const history = [
    acquire([0, 1], "A", "unknown"),
    acquire([2, 3], "B", held("A")),
    acquire([900, 901], "B", held("A")),
    acquire([1_002, 1_003], "B", acquired(9)),
  ];
  expect(verdict(history)).toBe("not");
  const ttl = { minMs: 1_000, stepMs: 1_000 };
  expect(checkLinearizability(history, { ttl }).verdict).toBe("linearizable");
});

it("lets a store repeat what it says it repeats, as often as was counted", () => {
  const judge = (tries: object, repeats: boolean) => {
    const history = [
      { ...acquire([0, 1], "A", acquired(1)), ...tries },
      release([2, 3], "A", released),
      acquire([4, 5], "B", acquired(2)),
      release([6, 7], "B", released),
      acquire([8, 9], "C", held("A")),
      acquire([150, 151], "C", acquired(4)),
    ];
    return checkLinearizability(history, { repeats }).verdict;
  };
  expect([judge({}, false), judge({}, true)]).toEqual(["not", "linearizable"]);
  expect([judge({ tries: 1 }, true), judge({ tries: 2 }, false)]).toEqual(["not", "linearizable"]);
});

it("leaves out repetitions where all of them are too many orders, and finds no order that is wrong", () => {
  const tries = 8;
  const lost = Array.from({ length: 6 }, (_, at) => [
    { ...acquire([0, 1], `U${at}`, "unknown"), tries },
    { ...release([2, 3], `U${at}`, "unknown"), tries },
  ]).flat();
  const answered = [
    acquire([5, 60], "A", held("U0")),
    acquire([5, 60], "B", held("U1")),
    acquire([5, 61], "C", acquired(9)),
    release([62, 63], "C", released),
  ];
  const judge = (history: HistoryEntry[]) =>
    checkLinearizability(history, { maxSteps: 2_000 }).verdict;
  expect(judge([...lost, ...answered])).toBe("linearizable");
  expect(judge([...lost, ...answered, acquire([64, 65], "D", acquired(9))])).toBe("unknown");
});

it("does not know when its budget is used up", () => {
  const crowd = Array.from({ length: 12 }, (_, at) => acquire([at, 90], `L${at}`, acquired(1)));
  const { verdict, resources } = checkLinearizability(crowd, { maxSteps: 10 });
  expect(verdict).toBe("unknown");
  expect(resources[0]?.explanation).toEqual([]);
  expect(checkLinearizability(crowd).verdict).toBe("not");
});

it("lets grants end late where the engine does, and no later", () => {
  const until = (ms: number) => [
    acquire([0, 1], "A", acquired(1)),
    acquire([ms, ms + 1], "B", held("A", 40)),
    renew([ms + 2, ms + 3], "A", renewed(1)),
    acquire([ms + 4, ms + 5], "C", held("A")),
  ];
  const judged = (ms: number, lateMs?: number) =>
    checkLinearizability(until(ms), lateMs === undefined ? {} : { lateMs }).verdict;
  expect([judged(140), judged(140, 50), judged(160, 50)]).toEqual(["not", "linearizable", "not"]);
  expect(judged(10_000, Number.POSITIVE_INFINITY)).toBe("linearizable");
  // A grant never ends before the time that its holder's answer states.
  const early = [acquire([0, 1], "A", acquired(1)), acquire([50, 51], "B", acquired(2))];
  expect(checkLinearizability(early, { lateMs: 50 }).verdict).toBe("not");
});

it("lets observers without a clock disagree about an end that has passed, not about one to come", () => {
  const views = (ms: number) => [
    acquire([0, 1], "A", acquired(1)),
    revoke([ms, ms + 1], {}, { status: "notHeld" }),
    acquire([ms + 2, ms + 3], "B", held("A", 90)),
    acquire([ms + 4, ms + 5], "A", ended),
    renew([ms + 6, ms + 7], "A", renewed(1)),
    acquire([ms + 8, ms + 9], "C", held("A", 90)),
  ];
  const judged = (ms: number, lateMs: number) =>
    checkLinearizability(views(ms), { lateMs }).verdict;
  expect(judged(150, Number.POSITIVE_INFINITY)).toBe("linearizable");
  expect(judged(50, Number.POSITIVE_INFINITY)).toBe("not");
  expect(judged(150, 1_000)).toBe("not");
});

it("writes and reads JSON lines", () => {
  const history = [
    acquire([0.25, 1], "A", acquired(1)),
    acquire([2, 3], "B", "unknown"),
    release([4, 5], "A", "fail"),
  ];
  expect(fromJsonLines(toJsonLines(history))).toEqual(history);
});

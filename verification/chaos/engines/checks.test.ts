/** The checks themselves, on runs made up: each must see what it is there for. */
import { describe, expect, it } from "vitest";
import { withoutExample } from "../../support/complaints.js";
import * as checks from "./checks.js";
import { type GrantRecord, Journal } from "./journal.js";
import { Registers } from "./registers.js";
import type { Site } from "./site.js";

const { checkTokens, countStaleTaken, findOverlaps } = checks;

/** Grants with these tokens, one second apart, followed by these writes of their holders. */
function run(tokens: readonly number[], writes: readonly { of: number; atMs: number }[]) {
  const journal = new Journal();
  const registers = new Registers();
  for (const [at, token] of tokens.entries()) {
    const receivedMs = 1_000 * at + 5;
    const grant = `grant-${at}`;
    journal.granted({ resource: "r", grant, token, by: `h${at}`, sentMs: 1_000 * at, receivedMs });
  }
  const taken = writes.map(({ of, atMs }) => {
    const write = { resource: "r", token: tokens[of]!, grant: `grant-${of}`, by: `h${of}` };
    return registers.write({ ...write, checkedMs: 0 }, atMs);
  });
  return { journal, registers, taken };
}

describe("late writes", () => {
  const late = [
    { of: 0, atMs: 100 },
    { of: 1, atMs: 1_100 },
    { of: 0, atMs: 1_200 },
  ];

  it("are refused by the fence, and taken without one", () => {
    const { taken, registers, ...ran } = run([1, 2], late);
    expect(taken).toEqual([true, true, false]);
    expect(registers).toMatchObject({ refused: 1, unfencedViolations: 1 });
    expect(countStaleTaken({ registers, ...ran })).toBe(0);
    expect(checkTokens(ran.journal)).toEqual([]);
  });

  it("that pass, because tokens went back, are counted", () => {
    const { taken, ...ran } = run([5, 5], late);
    expect(taken).toEqual([true, true, true]);
    expect(countStaleTaken(ran)).toBe(1);
    expect(checkTokens(ran.journal)).toHaveLength(2);
  });

  it("are none if each holder stops writing before the next grant", () => {
    const { taken, ...ran } = run([1, 2], late.slice(0, 2));
    expect(taken).toEqual([true, true]);
    expect(countStaleTaken(ran)).toBe(0);
    expect(findOverlaps(ran.journal)).toEqual([]);
  });
});

/** Grants of one resource: token, holder, when each was asked for and received, and what else is known. */
type Granted = Partial<GrantRecord> & Pick<GrantRecord, "token" | "sentMs">;

function journalOf(...grants: readonly Granted[]): Journal {
  const journal = new Journal();
  for (const [at, { token, sentMs, ...more }] of grants.entries()) {
    const grant = `grant-${at}`;
    const own = { resource: "r", grant, token, by: `h${at}`, sentMs, receivedMs: sentMs + 5 };
    journal.granted({ ...own, ...more });
    Object.assign(journal.grants.get(more.grant ?? grant)!, more);
  }
  return journal;
}

/** Of the holder h0, killed at 500, whose successor h1 was granted the resource at 1,500. */
function siteOf({ first = {}, next = {}, deathsMs = [500], killed = "h0" } = {}): Site {
  const journal = journalOf(
    { token: 1, sentMs: 0, ...first },
    { token: 2, sentMs: 1_495, ...next },
  );
  return {
    witness: { journal, registers: new Registers() },
    losses: [{ kind: "killed", by: killed, atMs: 500, calmMs: 100 }],
    slots: [{ deathsMs }],
    settings: { deadWaiter: { ticketMs: 400, costMs: 50 } },
  } as unknown as Site;
}

/** A site in which the first grant has written, by this name and token. */
function written(grant: string, token: number): Site {
  const site = siteOf();
  const write = { resource: "r", token, grant, by: "h0", checkedMs: 0 };
  site.witness.registers.write(write, 10);
  return site;
}

const mark = { by: "h0", fromMs: 100, toMs: 200 };
const breach = { resource: "r", token: 1, by: "h0", atMs: 100, what: "trusted" };

/** What each check makes of a run that is wrong in one way, and of one that nearly is. */
type Run = readonly [what: string, wrong: () => unknown, found: unknown, right: () => unknown];
const RUNS: Readonly<Record<keyof typeof checks, readonly Run[]>> = {
  checkTokens: [
    [
      "a smaller token of a grant that was asked for later",
      () => checkTokens(journalOf({ token: 2, sentMs: 0 }, { token: 1, sentMs: 16 })),
      ["r: h1 got 1 after 2"],
      // Their requests overlap, as far as clocks tell.
      () => checkTokens(journalOf({ token: 2, sentMs: 0 }, { token: 1, sentMs: 15 })),
    ],
    [
      "a token below one before the last",
      () =>
        checkTokens(
          journalOf({ token: 1, sentMs: 0 }, { token: 3, sentMs: 50 }, { token: 2, sentMs: 90 }),
        ),
      ["r: h2 got 2 after 3"],
      () =>
        checkTokens(
          journalOf({ token: 1, sentMs: 0 }, { token: 2, sentMs: 50 }, { token: 3, sentMs: 90 }),
        ),
    ],
    [
      "a token below one that was received before the last",
      () =>
        checkTokens(
          journalOf(
            { token: 5, sentMs: 0, receivedMs: 60 },
            { token: 3, sentMs: 10, receivedMs: 65 },
            { token: 4, sentMs: 100 },
          ),
        ),
      ["r: h2 got 4 after 5"],
      () =>
        checkTokens(
          journalOf(
            { token: 5, sentMs: 0, receivedMs: 60 },
            { token: 3, sentMs: 10, receivedMs: 65 },
            { token: 6, sentMs: 100 },
          ),
        ),
    ],
    [
      "one token of two grants",
      () => checkTokens(journalOf({ token: 1, sentMs: 0 }, { token: 1, sentMs: 10 })),
      ["r: a token was granted twice"],
      () =>
        checkTokens(
          journalOf({ token: 1, sentMs: 0 }, { token: 1, sentMs: 10, resource: "other" }),
        ),
    ],
  ],
  checkWrites: [
    [
      "a write of a grant that no holder has reported",
      () => checks.checkWrites(written("grant-9", 1)),
      ["r: 1 wrote, but no holder reported its grant"],
      () => checks.checkWrites(written("grant-0", 1)),
    ],
    [
      "a write with another token than that of its grant",
      () => checks.checkWrites(written("grant-0", 9)),
      ["r: 9 wrote, but no holder reported its grant"],
      () => checks.checkWrites(written("grant-0", 1)),
    ],
  ],
  countStaleTaken: [
    [
      "a late write that passes",
      () => {
        const late = [
          { of: 0, atMs: 100 },
          { of: 1, atMs: 1_100 },
          { of: 0, atMs: 1_200 },
        ];
        return countStaleTaken(run([5, 5], late));
      },
      1,
      () => {
        const inTime = [
          { of: 0, atMs: 100 },
          { of: 0, atMs: 1_050 },
          { of: 1, atMs: 1_100 },
        ];
        return countStaleTaken(run([5, 5], inTime));
      },
    ],
  ],
  findOverlaps: [
    [
      "trust after the next holder has its grant",
      () =>
        findOverlaps(journalOf({ token: 1, sentMs: 0, trustedMs: 116 }, { token: 2, sentMs: 100 })),
      [
        {
          resource: "r",
          token: 1,
          by: "h0",
          atMs: 116,
          what: "trusted when h1 had been granted 2",
        },
      ],
      () =>
        findOverlaps(journalOf({ token: 1, sentMs: 0, trustedMs: 115 }, { token: 2, sentMs: 100 })),
    ],
    [
      "trust after a later holder has its grant, where the one between came to know late",
      () =>
        findOverlaps(
          journalOf(
            { token: 1, sentMs: 0, trustedMs: 250 },
            { token: 2, sentMs: 100, receivedMs: 300 },
            { token: 3, sentMs: 200 },
          ),
        ).map(({ token }) => token),
      [1],
      () =>
        findOverlaps(
          journalOf(
            { token: 1, sentMs: 0, trustedMs: 200 },
            { token: 2, sentMs: 100, receivedMs: 300 },
            { token: 3, sentMs: 200 },
          ),
        ),
    ],
  ],
  isMarked: [
    [
      "while its clock is wrong",
      () => checks.isMarked([mark], breach),
      true,
      () => checks.isMarked([], breach),
    ],
    [
      "at the end of that",
      () => checks.isMarked([mark], { ...breach, atMs: 200 }),
      true,
      () => checks.isMarked([mark], { ...breach, atMs: 201 }),
    ],
    [
      "from the beginning of that",
      () => checks.isMarked([mark], breach),
      true,
      () => checks.isMarked([mark], { ...breach, atMs: 99 }),
    ],
    [
      "by its own clock",
      () => checks.isMarked([mark], breach),
      true,
      () => checks.isMarked([{ ...mark, by: "h1" }], breach),
    ],
    [
      "by the engine's",
      () => checks.isMarked([{ ...mark, by: null }], breach),
      true,
      () => checks.isMarked([], breach),
    ],
  ],
  countExpiries: [
    [
      "a grant that was not released before the next",
      () => checks.countExpiries(journalOf({ token: 1, sentMs: 0 }, { token: 2, sentMs: 100 })),
      1,
      () =>
        checks.countExpiries(
          journalOf({ token: 1, sentMs: 0, releasingMs: 105 }, { token: 2, sentMs: 100 }),
        ),
    ],
    [
      "a grant whose release came too late",
      () =>
        checks.countExpiries(
          journalOf({ token: 1, sentMs: 0, releasingMs: 106 }, { token: 2, sentMs: 100 }),
        ),
      1,
      () =>
        checks.countExpiries(
          journalOf({ token: 1, sentMs: 0 }, { token: 2, sentMs: 100, resource: "other" }),
        ),
    ],
  ],
  findTakeovers: [
    [
      "from the last renewal of the lost holder to the next grant",
      () => checks.findTakeovers(siteOf({ first: { lastSentMs: 400 } })),
      [{ resource: "r", kind: "killed", ms: 1_100, deadWaitersMs: 0, calmMs: 100 }],
      () => checks.findTakeovers(siteOf({ killed: "h2" })),
    ],
    [
      "from a renewal that was under way, behind one who died before",
      () => checks.findTakeovers(siteOf({ first: { pendingMs: 450 }, deathsMs: [99, 101, 500] })),
      [{ resource: "r", kind: "killed", ms: 1_050, deadWaitersMs: 50, calmMs: 100 }],
      () => checks.findTakeovers(siteOf({ first: { releasingMs: 450 } })),
    ],
    [
      "of a holder whose release came after the next grant",
      () => checks.findTakeovers(siteOf({ first: { releasingMs: 1_501 } })).length,
      1,
      () => checks.findTakeovers(siteOf({ next: { receivedMs: 499 } })),
    ],
    [
      "of a grant that was received before the loss",
      () => checks.findTakeovers(siteOf({ first: { receivedMs: 500 } })).length,
      1,
      () => checks.findTakeovers(siteOf({ first: { receivedMs: 501 } })),
    ],
  ],
};

describe.each(Object.entries(RUNS))("%s", (_, runs) => {
  const cases = runs.map(([what, wrong, found, right]) => ({ what, wrong, found, right }));
  it.each(cases)("finds $what, alone", ({ wrong, found, right }) => {
    expect(wrong()).toEqual(found);
    expect([[], 0, false]).toContainEqual(right());
  });
});

it("has an example of each complaint", () => {
  const found = Object.values(RUNS).flatMap((runs) => runs.flatMap(([, wrong]) => wrong()));
  const complaints = found.map((one) => (one as { what?: string }).what ?? String(one));
  expect(withoutExample(new URL("checks.ts", import.meta.url), complaints)).toEqual([]);
});

describe("a register", () => {
  const write = (registers: Registers, token: number, checkedMs: number, atMs: number) =>
    registers.write({ resource: "r", token, grant: `g${token}`, by: `h${token}`, checkedMs }, atMs);

  it("tells a holder that trusted its lease after its successor's write from one that stopped", () => {
    const registers = new Registers();
    write(registers, 2, 90, 100);
    write(registers, 1, 100, 110);
    expect(registers.breaches).toEqual([]);
    write(registers, 1, 101, 111);
    const what = "trusted while 2 had written";
    expect(registers.breaches).toEqual([{ resource: "r", token: 1, by: "h1", atMs: 101, what }]);
    expect(withoutExample(new URL("registers.ts", import.meta.url), [what])).toEqual([]);
  });

  it("refuses a smaller token, no equal one", () => {
    const registers = new Registers();
    const taken = [2, 2, 1, 3].map((token) => write(registers, token, 0, token));
    expect(taken).toEqual([true, true, false, true]);
    expect(registers).toMatchObject({ writes: 4, refused: 1, unfencedViolations: 1 });
  });
});

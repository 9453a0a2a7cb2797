import { expect, it } from "vitest";

interface Figures {
  readonly lost: number;
  readonly because?: object;
  readonly refused: number;
  readonly offeredPerSecond: number;
  readonly capacityPerSecond: number;
  readonly waiting: number;
}
// A name that the compiler does not follow: it is a script.
const script = new URL("./judge.js", import.meta.url).href;
interface Attack {
  readonly attack: string;
  readonly lost: number;
  readonly because?: object;
  readonly unprotected: boolean;
  readonly costs: boolean;
}
const { wrongWith, wrongWithAttack } = (await import(script)) as {
  wrongWith(figures: Figures): string | null;
  wrongWithAttack(figures: Attack): string | null;
};

const well: Figures = {
  lost: 0,
  refused: 1,
  offeredPerSecond: 201,
  capacityPerSecond: 100,
  waiting: 0,
};

it("passes where the server was overloaded and no lease was lost", () => {
  expect(wrongWith(well)).toBe(null);
  expect(wrongWith({ ...well, refused: 0, offeredPerSecond: 101, waiting: 8_000 })).toBe(null);
});

it.each<[string, Partial<Figures>, string]>([
  ["a lost lease", { lost: 1, because: { expired: 1 } }, 'leases were lost: {"expired":1}'],
  ["no refusal", { refused: 0, waiting: 256 }, "the server was not overloaded"],
  ["no more than twice its capacity", { offeredPerSecond: 200 }, "the server was not overloaded"],
])("fails for %s", (_, more, wrong) => {
  expect(wrongWith({ ...well, ...more })).toBe(wrong);
});

it.each<[string, Omit<Attack, "attack">, string | null]>([
  ["passes without a loss", { lost: 0, unprotected: false, costs: true }, null],
  [
    "fails for a loss",
    { lost: 1, because: { expired: 1 }, unprotected: false, costs: false },
    'lists: leases were lost: {"expired":1}',
  ],
  ["passes for a loss without the protection", { lost: 1, unprotected: true, costs: true }, null],
  [
    "fails if the protection was not needed",
    { lost: 0, unprotected: true, costs: true },
    "lists: no lease was lost, so the protection was not tested",
  ],
  [
    "passes without a loss and without the protection where it costs none",
    { lost: 0, unprotected: true, costs: false },
    null,
  ],
])("an attack %s", (_, figures, wrong) => {
  expect(wrongWithAttack({ attack: "lists", ...figures })).toBe(wrong);
});

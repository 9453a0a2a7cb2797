/** Small requests share a turn of the event loop, by tenant, up to a bound. */
import { nextTurn } from "leasehold/internal";
import { manualClock } from "leasehold/testing";
import { expect, it } from "vitest";
import { RequestTurns } from "./request-turns.js";

/** @returns in which turn each request begins, in the order in which they begin */
function began(
  turns: RequestTurns,
  requests: readonly (readonly [sender: string, work: number])[],
) {
  let turn = 0;
  const begun: string[] = [];
  // Counts before the requests are served in a turn.
  const counting = (async () => {
    for (; begun.length < requests.length; turn += 1) await nextTurn();
  })();
  const all = requests.map(async ([sender, work], index) => {
    await turns.small(sender, work);
    begun.push(`${turn} ${sender}${index}`);
  });
  return Promise.all([counting, ...all]).then(() => begun);
}

it("what exceeds a tenant's part of a turn begins in the next ones, in order", async () => {
  const requests = Array.from({ length: 7 }, () => ["a", 40] as const);
  const begun = await began(new RequestTurns(manualClock()), requests);
  // The third one has exceeded the turn by 20.
  expect(begun).toEqual(["0 a0", "0 a1", "0 a2", "1 a3", "1 a4", "2 a5", "2 a6"]);
});

it("a tenant does not wait for another one", async () => {
  const requests = [...Array.from({ length: 50 }, () => ["a", 100] as const), ["b", 25] as const];
  const begun = await began(new RequestTurns(manualClock()), requests);
  expect(begun.slice(0, 2)).toEqual(["0 a0", "0 b50"]);
  expect(begun.at(-1)).toBe("49 a49");
});

it("a turn without requests leaves nothing to the next one", async () => {
  const turns = new RequestTurns(manualClock());
  const four = Array.from({ length: 4 }, () => ["a", 50] as const);
  for (let round = 0; round < 3; round += 1) {
    expect(await began(turns, four)).toEqual(["0 a0", "0 a1", "1 a2", "1 a3"]);
    for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  }
});

it("requests of clients that have gone take no turn, and are not kept", async () => {
  const next: (() => void)[] = [];
  const turns = new RequestTurns(manualClock(), () => new Promise((resolve) => next.push(resolve)));
  const begun: string[] = [];
  const gone = new Set<string>();
  for (const name of ["a", "b", "c", "d"]) {
    const turn = turns.small("sender", 100, () => gone.has(name));
    void (async () => {
      await turn;
      begun.push(name);
    })();
  }
  await nextTurn();
  expect(begun).toEqual(["a"]);
  for (const name of ["b", "d"]) gone.add(name);
  next.shift()?.();
  await nextTurn();
  expect(begun).toEqual(["a", "b", "c", "d"]);
});

/** @returns the number of turns between large requests, and before the first one, if each turn takes `turnMs` */
async function turnsBetweenLarge(turnMs: number): Promise<number[]> {
  const clock = { ...manualClock(), monotonic: () => passed * turnMs };
  const turns = new RequestTurns(clock);
  const begun: number[] = [];
  let passed = 0;
  const all = [1, 2, 3].map(() => turns.large().then(() => begun.push(passed)));
  for (; begun.length < all.length; passed += 1) await nextTurn();
  return begun.map((turn, at) => turn - (begun[at - 1] ?? 0));
}

it("leaves turns between large requests for callers that connect", async () => {
  const [first, ...others] = await turnsBetweenLarge(0);
  expect(first).toBeLessThanOrEqual(1);
  for (const between of others) expect(between).toBeGreaterThanOrEqual(15);
});

it("does not delay large requests by many turns that take long, as those of a flood do", async () => {
  for (const between of await turnsBetweenLarge(60)) expect(between).toBeLessThanOrEqual(2);
});

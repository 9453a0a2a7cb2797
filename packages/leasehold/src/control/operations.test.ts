import { expect, it } from "vitest";
import { type AuditLog, CHAIN_BEGIN, chained } from "./audit.js";
import { type Act, type Actors, inTwoSteps } from "./operations.js";

const ACT: Act = {
  namespace: "n",
  actor: "key:1",
  action: "lease.revoke",
  target: "r",
  reason: "why",
};
const ACTORS = {} as Actors;

/** @param failing the entries, by number from 1, that cannot be written */
function open(failing: readonly number[] = []) {
  const written: string[] = [];
  let asked = 0;
  const operations = inTwoSteps(
    {
      async append([entry]) {
        asked += 1;
        if (failing.includes(asked)) throw new Error("unavailable");
        if (!entry) return [];
        written.push(`${entry.phase} ${entry.details}`);
        return [chained({ ...CHAIN_BEGIN, seq: 40 + asked }, entry, "")];
      },
      list: () => Promise.reject(new Error("not asked")),
      read: () => Promise.reject(new Error("not asked")),
      head: () => Promise.reject(new Error("not asked")),
    },
    ACTORS,
  );
  return { written, operations };
}

it("an act stands between its intent and its result", async () => {
  const { written, operations } = open();
  const value = await operations.perform(ACT, async (actors) => {
    expect(actors).toBe(ACTORS);
    written.push("act");
    return { value: 7, details: { status: "revoked" } };
  });
  expect(value).toBe(7);
  expect(written).toEqual(["intent {}", "act", 'result {"intent":42,"status":"revoked"}']);
});

it("reports its entry where the log returns one", async () => {
  const { operations } = open();
  const reported: number[] = [];
  const done = async () => ({ value: "done", details: {} });
  await operations.perform(ACT, done, ({ seq }) => reported.push(seq));
  expect(reported).toEqual([42]);
  const silent = inTwoSteps({ append: async () => [] } as unknown as AuditLog, ACTORS);
  expect(await silent.perform(ACT, done, ({ seq }) => reported.push(seq))).toBe("done");
  expect(reported).toEqual([42]);
});

it("nothing is done without an intent", async () => {
  const { written, operations } = open([1]);
  const acting = operations.perform(ACT, async () => {
    written.push("act");
    return { value: null, details: {} };
  });
  await expect(acting).rejects.toThrow("unavailable");
  expect(written).toEqual([]);
});

it("what was done stays done when its result cannot be written", async () => {
  const { written, operations } = open([2]);
  const acting = operations.perform(ACT, async () => ({ value: "done", details: {} }));
  expect(await acting).toBe("done");
  expect(written).toEqual(["intent {}"]);
});

it("a failure is the result, and rejects as it was", async () => {
  const { written, operations } = open();
  const failure = new TypeError("no");
  await expect(operations.perform(ACT, () => Promise.reject(failure))).rejects.toBe(failure);
  expect(written).toEqual(["intent {}", 'result {"intent":42,"failure":"no"}']);
  await expect(operations.perform(ACT, () => Promise.reject("text"))).rejects.toBe("text");
  expect(written.at(-1)).toBe('result {"intent":44,"failure":"text"}');
});

/** How many lists and counts of a tenant are in the store at once, and what the others get. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { nextTurn } from "../../../../leasehold/src/env/index.js";
import { ScanTurns } from "./scan-turns.js";

function open() {
  const env = manualEnv();
  const turns = new ScanTurns(env.clock);
  const inStore: { readonly question: string; end(answer: string | Error): void }[] = [];
  const ask = (question: string) =>
    turns.run(
      question,
      () =>
        new Promise<string>((resolve, reject) => {
          const end = (answer: string | Error) => {
            inStore.splice(inStore.indexOf(entry), 1);
            if (answer instanceof Error) reject(answer);
            else resolve(answer);
          };
          const entry = { question, end };
          inStore.push(entry);
        }),
    );
  const running = () => inStore.map(({ question }) => question).join(" ");
  const end = async (answer: string | Error = "answer") => {
    inStore[0]?.end(answer);
    await env.clock.settle();
    // The turn is free in the turn of the event loop after.
    await nextTurn();
    await env.clock.settle();
  };
  return { env, ask, running, end };
}

const REFUSED = { code: "TOO_MANY_REQUESTS", message: expect.stringContaining("take turns") };

it("lets two reads be in the store at once, and the others follow in their order", async () => {
  const { env, ask, running, end } = open();
  const all = ["a", "b", "c", "d"].map(ask);
  await env.clock.settle();
  expect(running()).toBe("a b");
  await end();
  expect(running()).toBe("b c");
  await end();
  expect(running()).toBe("c d");
  await end();
  await end();
  expect(await Promise.all(all)).toEqual(Array(4).fill("answer"));
  // Both are free again.
  void ask("e");
  void ask("f");
  await env.clock.settle();
  expect(running()).toBe("e f");
});

it("asks a question once for all who wait with it, and again for those who come after it began", async () => {
  const { env, ask, running, end } = open();
  const first = ask("a");
  void ask("b");
  const [second, third] = [ask("a"), ask("a")];
  await env.clock.settle();
  expect(running()).toBe("a b");
  await end("old");
  const fourth = ask("a");
  await env.clock.settle();
  expect(running()).toBe("b a");
  await end();
  expect(running()).toBe("a a");
  await end("new");
  await end("newest");
  expect(await Promise.all([first, second, third, fourth])).toEqual([
    "old",
    "new",
    "new",
    "newest",
  ]);
});

it("hands the turn on after a failure, which all who wait with the question get", async () => {
  const { env, ask, running, end } = open();
  const [a, b] = [ask("a"), ask("b")];
  const [c, same] = [ask("c"), ask("c")];
  const failures = Promise.all([a, c, same].map((one) => one.catch((error: unknown) => error)));
  await env.clock.settle();
  const error = new Error("the store is down");
  await end(error);
  expect(running()).toBe("b c");
  await end();
  await end(error);
  expect(await b).toBe("answer");
  expect(await failures).toEqual([error, error, error]);
  void ask("d");
  await env.clock.settle();
  expect(running()).toBe("d");
});

it("refuses one that does not begin in time, and never asks the store for it", async () => {
  const { env, ask, running, end } = open();
  void ask("a");
  void ask("b");
  const late = ask("c").catch((error: unknown) => error);
  await env.clock.advance(5_000);
  expect(await late).toMatchObject(REFUSED);
  await end();
  expect(running()).toBe("b");
});

it("refuses one more than may wait", async () => {
  const { env, ask, running, end } = open();
  const some = Array.from({ length: 102 }, (_, n) => ask(`${n}`));
  await env.clock.settle();
  await expect(ask("102")).rejects.toMatchObject(REFUSED);
  const shared = ask("101");
  expect(running()).toBe("0 1");
  for (let n = 0; n < 102; n += 1) await end();
  await Promise.all([...some, shared]);
});

/** How many scans of a tenant are in the store at once, and what the others get. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { nextTurn } from "../../../../leasehold/src/env/index.js";
import { ScanSlots } from "./scan-slots.js";

function open(slots = 1) {
  const env = manualEnv();
  const scans = new ScanSlots(env.clock, slots);
  /** Scans in the store, in the order of their begin, with what ends them. */
  const inStore: { question: string; end: (answer: string | Error) => void }[] = [];
  const scan = async (question: string, timeoutMs = 4_000) => {
    const { answer } = await scans.begin(question, timeoutMs, () => {
      return new Promise<string>((resolve, reject) => {
        const end = (ended: string | Error) => {
          inStore.splice(inStore.indexOf(entry), 1);
          if (ended instanceof Error) reject(ended);
          else resolve(ended);
        };
        const entry = { question, end };
        inStore.push(entry);
      });
    });
    return answer;
  };
  const running = () => inStore.map(({ question }) => question).join(" ");
  const end = async (answer: string | Error) => {
    inStore[0]?.end(answer);
    await env.clock.settle();
    // The slot is free in the turn after.
    await nextTurn();
    await env.clock.settle();
  };
  return { env, scans, scan, running, end };
}

it("begins scans one after the other in their order, and shares those that wait and ask the same", async () => {
  const { env, scan, running, end } = open();
  const answers = ["a", "a", "b", "a", "b"].map((question) => scan(question));
  await env.clock.settle();
  expect(running()).toBe("a");
  await end("first");
  expect(running()).toBe("a");
  await end("second");
  expect(running()).toBe("b");
  await end("third");
  expect(running()).toBe("");
  expect(await Promise.all(answers)).toEqual(["first", "second", "third", "second", "third"]);
});

it("lets as many run at once as there are slots", async () => {
  const { env, scan, running, end } = open(2);
  const answers = ["a", "b", "c"].map((question) => scan(question));
  await env.clock.settle();
  expect(running()).toBe("a b");
  await end("1");
  expect(running()).toBe("b c");
  await end("2");
  await end("3");
  expect(await Promise.all(answers)).toEqual(["1", "2", "3"]);
});

it("refuses a scan when too many wait, but not one that asks what another waits for", async () => {
  const { env, scan, running, end } = open();
  const answers = Array.from({ length: 33 }, (_, at) => scan(`${at}`));
  await env.clock.settle();
  await expect(scan("33")).rejects.toMatchObject({
    code: "TOO_MANY_REQUESTS",
    init: { headers: { "retry-after": "1" } },
  });
  answers.push(scan("32"));
  for (let at = 0; at < 33; at += 1) {
    expect(running()).toBe(`${at}`);
    await end(`answer ${at}`);
  }
  expect((await Promise.all(answers)).slice(-2)).toEqual(["answer 32", "answer 32"]);
});

it("refuses a scan that has not begun in time, and drops it when all its callers have left", async () => {
  const { env, scan, running, end } = open();
  void scan("a");
  const late = [scan("b", 1_000), scan("b", 2_000), scan("c", 1_000)].map((answer) =>
    expect(answer).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" }),
  );
  const patient = scan("c", 60_000);
  await env.clock.advance(2_000);
  await Promise.all(late);
  expect(running()).toBe("a");
  await end("1");
  await env.clock.advance(1_000);
  expect(running()).toBe("c");
  await end("2");
  expect(await patient).toBe("2");
});

it("begins the next scan after as much time as the one before took, 1 s at most", async () => {
  for (const [tookMs, restMs] of [
    [300, 300],
    [5_000, 1_000],
  ] as const) {
    const { env, scan, running, end } = open();
    const answers = [scan("a")];
    await env.clock.advance(tookMs);
    answers.push(scan("b"));
    await end("1");
    await env.clock.advance(restMs - 1);
    expect(running()).toBe("");
    await env.clock.advance(1);
    expect(running()).toBe("b");
    await end("2");
    expect(await Promise.all(answers)).toEqual(["1", "2"]);
  }
});

it("counts the time of a scan that does all within the call", async () => {
  const env = manualEnv();
  let passedMs = 0;
  const monotonic = () => env.clock.monotonic() + passedMs;
  const scans = new ScanSlots({ ...env.clock, monotonic }, 1);
  const begun: string[] = [];
  const scan = (question: string) =>
    scans.begin(question, 4_000, async () => {
      begun.push(question);
      passedMs += 20;
    });
  const both = [scan("a"), scan("b")];
  await env.clock.advance(19);
  expect(begun).toEqual(["a"]);
  await env.clock.advance(1);
  expect(begun).toEqual(["a", "b"]);
  await Promise.all(both);
});

it("waits for 5 s at most", async () => {
  const { env, scan, end } = open();
  void scan("a");
  const refused = expect(scan("b", 60_000)).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" });
  await env.clock.advance(5_000);
  await refused;
  await end("1");
});

it("returns the slot of a scan that fails, and tells all its callers", async () => {
  const { env, scan, running, end } = open();
  const first = expect(scan("a")).rejects.toThrow("broken");
  const shared = [scan("b"), scan("b")].map((answer) => expect(answer).rejects.toThrow("again"));
  await env.clock.settle();
  await end(new Error("broken"));
  await first;
  expect(running()).toBe("b");
  await end(new Error("again"));
  await Promise.all(shared);
  const last = scan("c");
  expect(running()).toBe("c");
  await end("1");
  expect(await last).toBe("1");
});

it("refuses all that wait when it is closed", async () => {
  const { env, scans, scan, running, end } = open();
  const first = scan("a");
  const waiting = expect(scan("b")).rejects.toMatchObject({ code: "CLOSING" });
  await env.clock.settle();
  scans.close();
  await waiting;
  await end("1");
  expect(await first).toBe("1");
  expect(running()).toBe("");
});

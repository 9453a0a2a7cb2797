/** How many calls of a tenant are under way at once, and what the others get. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { nextTurn } from "../../../../leasehold/src/env/index.js";
import { Slots } from "./slots.js";

function open(options: Partial<ConstructorParameters<typeof Slots>[1]> = {}) {
  const env = manualEnv();
  const slots = new Slots(env.clock, { slots: 1, what: "reads of a tenant", ...options });
  /** Calls that are under way, in the order of their begin, with what ends them. */
  const underWay: { name: string; end: (answer: string | Error) => void }[] = [];
  const call = (name: string, wanted: Parameters<Slots["run"]>[1] = {}) =>
    slots.run(
      () =>
        new Promise<string>((resolve, reject) => {
          const end = (ended: string | Error) => {
            underWay.splice(underWay.indexOf(entry), 1);
            if (ended instanceof Error) reject(ended);
            else resolve(ended);
          };
          const entry = { name, end };
          underWay.push(entry);
        }),
      wanted,
    );
  const running = () => underWay.map(({ name }) => name).join(" ");
  const settled = async () => {
    await env.clock.settle();
    await nextTurn();
    await env.clock.settle();
  };
  /** Ends the first one. */
  const end = async (answer: string | Error = "") => {
    underWay[0]?.end(answer);
    await settled();
  };
  return { env, slots, call, running, end, settled };
}

const REFUSED = { code: "TOO_MANY_REQUESTS", init: { headers: { "retry-after": "1" } } };

it("lets as many run at once as there are slots, and begins the others in their order", async () => {
  const { slots, call, running, end, settled } = open({ slots: 2 });
  const answers = ["a", "b", "c", "d"].map((name) => call(name));
  await settled();
  expect(running()).toBe("a b");
  expect(slots.used).toBe(1);
  await end("1");
  expect(running()).toBe("b c");
  await end("2");
  await end("3");
  expect(slots.used).toBe(0.5);
  await end("4");
  expect(await Promise.all(answers)).toEqual(["1", "2", "3", "4"]);
  expect(slots.used).toBe(0);
});

it("lets a call that needs more than there are be alone, and none overtakes one that waits", async () => {
  const { call, running, end, settled } = open({ slots: 8 });
  const wanted = { a: 100, b: Infinity, c: 1, d: 1, e: 8, f: 1 };
  const calls = Object.entries(wanted).map(([name, slots]) => call(name, { slots }));
  await settled();
  for (const now of ["a", "b", "c d", "d", "e", "f"]) {
    expect(running()).toBe(now);
    await end();
  }
  await Promise.all(calls);
});

it("frees slots in the turn after a call has ended, so that others are served in between", async () => {
  const { env, call, running, end } = open();
  const both = [call("a"), call("b")];
  await env.clock.settle();
  const ended = end();
  await env.clock.settle();
  expect(running()).toBe("");
  await ended;
  expect(running()).toBe("b");
  await end();
  await Promise.all(both);
});

it("frees slots at once where nothing rests", async () => {
  const { env, call, running, end } = open({ rest: "none" });
  const both = [call("a"), call("b")];
  await env.clock.settle();
  const ended = end();
  await env.clock.settle();
  expect(running()).toBe("b");
  await ended;
  await end();
  await Promise.all(both);
});

it("lets a slot rest for as long as it was taken, 1 s at most", async () => {
  for (const [tookMs, restMs] of [
    [300, 300],
    [5_000, 1_000],
  ] as const) {
    const { env, call, running, end } = open({ rest: "asLong" });
    const answers = [call("a")];
    await env.clock.advance(tookMs);
    answers.push(call("b"));
    await end("1");
    await env.clock.advance(restMs - 1);
    expect(running()).toBe("");
    await env.clock.advance(1);
    expect(running()).toBe("b");
    await end("2");
    expect(await Promise.all(answers)).toEqual(["1", "2"]);
  }
});

it("counts the time of what is done within the call", async () => {
  const env = manualEnv();
  let passedMs = 0;
  const monotonic = () => env.clock.monotonic() + passedMs;
  const options = { slots: 1, what: "reads of a tenant", rest: "asLong" } as const;
  const slots = new Slots({ ...env.clock, monotonic }, options);
  const begun: string[] = [];
  const call = (name: string) =>
    slots.run(async () => {
      begun.push(name);
      passedMs += 20;
    });
  const both = [call("a"), call("b")];
  await env.clock.advance(19);
  expect(begun).toEqual(["a"]);
  await env.clock.advance(1);
  expect(begun).toEqual(["a", "b"]);
  await Promise.all(both);
});

it("refuses a call at once when too many wait", async () => {
  const { call, running, end, settled } = open({ mostWaiting: 3 });
  const answers = ["a", "b", "c", "d"].map((name) => call(name));
  await settled();
  await expect(call("e")).rejects.toMatchObject(REFUSED);
  for (const name of ["a", "b", "c", "d"]) {
    expect(running()).toBe(name);
    await end(name);
  }
  expect(await Promise.all(answers)).toEqual(["a", "b", "c", "d"]);
});

it("refuses a call that has not begun in time, says what to do, and lets those behind it begin", async () => {
  const { env, call, running } = open({ slots: 8, remedy: "ask for less" });
  void call("a", { slots: 7 });
  const late = call("b", { slots: 8, timeoutMs: 1_000 });
  const refused = expect(late).rejects.toMatchObject({
    ...REFUSED,
    message: expect.stringMatching(/reads of a tenant .* within 1000 ms: ask for less$/),
  });
  void call("c");
  await env.clock.advance(999);
  expect(running()).toBe("a");
  await env.clock.advance(1);
  await refused;
  expect(running()).toBe("a c");
});

it("drops a call whose caller has gone, and lets those behind it begin", async () => {
  const { env, call, running } = open({ slots: 8 });
  void call("a", { slots: 7 });
  const [leaving, gone] = [new AbortController(), new AbortController()];
  gone.abort("gone");
  const left = expect(call("b", { slots: 8, signal: leaving.signal })).rejects.toBe("left");
  const never = expect(call("c", { slots: 8, signal: gone.signal })).rejects.toBe("gone");
  void call("d");
  await env.clock.settle();
  expect(running()).toBe("a");
  leaving.abort("left");
  await Promise.all([left, never]);
  await env.clock.settle();
  expect(running()).toBe("a d");
});

it("frees the slots of a call that fails or throws", async () => {
  const { slots, call, running, end, settled } = open();
  const first = expect(call("a")).rejects.toThrow("broken");
  await settled();
  await end(new Error("broken"));
  await first;
  const thrown = slots.run(() => {
    throw new Error("thrown");
  });
  await expect(thrown).rejects.toThrow("thrown");
  await settled();
  void call("b");
  await settled();
  expect(running()).toBe("b");
});

it("refuses all that wait when it is closed", async () => {
  const { slots, call, running, end, settled } = open();
  const first = call("a");
  const waiting = [call("b"), call("c")].map((one) =>
    expect(one).rejects.toMatchObject({ code: "CLOSING" }),
  );
  await settled();
  slots.close();
  await Promise.all(waiting);
  await end("1");
  expect(await first).toBe("1");
  expect(running()).toBe("");
});

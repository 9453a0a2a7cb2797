/** How many claims of a tenant are in the store at once, and what the others get. */
import type { ClaimOutcome } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { nextTurn } from "../../../../leasehold/src/env/index.js";
import { ClaimSlots } from "./claim-slots.js";

const names = (count: number) => Array.from({ length: count }, (_, at) => `n${at}`);

function open() {
  const env = manualEnv();
  const slots = new ClaimSlots(env.clock);
  /** Claims in the store, by the order of their calls. */
  const inStore: { name: string; timeoutMs: number; end: () => void }[] = [];
  const claim = (
    name: string,
    { queues = 1, kinds = 0, timeoutMs = 5_000, signal = new AbortController().signal } = {},
  ) => {
    const request = { queues: names(queues), kinds: kinds === 0 ? null : names(kinds) };
    return slots.run(request, { signal, timeoutMs }, (leftMs) => {
      let answer = (_: ClaimOutcome) => {};
      const call = new Promise<ClaimOutcome>((resolve) => {
        answer = resolve;
      });
      const end = () => {
        inStore.splice(inStore.indexOf(entry), 1);
        answer({ status: "claimed", tasks: [] });
      };
      const entry = { name, timeoutMs: leftMs, end };
      inStore.push(entry);
      return call;
    });
  };
  const running = () => inStore.map(({ name }) => name).join(" ");
  const end = async () => {
    inStore[0]?.end();
    await env.clock.settle();
    // The slots are free in the turn after.
    await nextTurn();
    await env.clock.settle();
  };
  return { env, slots, inStore, claim, running, end };
}

it("lets a claim of many queues be alone, and begins the others in their order", async () => {
  const { env, claim, running, end } = open();
  const claims = [
    claim("a", { queues: 100, kinds: 1 }),
    claim("b", { queues: 100, kinds: 1 }),
    claim("c"),
    claim("d"),
    claim("e", { queues: 4, kinds: 1 }),
    claim("f"),
  ];
  await env.clock.settle();
  expect(running()).toBe("a");
  await end();
  expect(running()).toBe("b");
  await end();
  expect(running()).toBe("c d");
  await end();
  expect(running()).toBe("d");
  await end();
  expect(running()).toBe("e");
  await end();
  expect(running()).toBe("f");
  await end();
  await Promise.all(claims);
});

it("lets eight claims of one queue run at once, and four with kinds", async () => {
  for (const [kinds, most] of [
    [0, 8],
    [3, 4],
  ] as const) {
    const { env, inStore, claim, end } = open();
    const claims = names(10).map((name) => claim(name, { kinds }));
    await env.clock.settle();
    expect(inStore).toHaveLength(most);
    await end();
    expect(inStore).toHaveLength(most);
    for (let ended = 1; ended < 10; ended += 1) await end();
    await Promise.all(claims);
  }
});

it("refuses a claim whose time is over before it begins, and gives others the time that remains", async () => {
  const { env, inStore, claim, running, end } = open();
  void claim("a", { queues: 8 });
  const late = claim("b", { queues: 8, timeoutMs: 1_000 });
  const refused = expect(late).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" });
  void claim("c", { timeoutMs: 3_000 });
  void claim("d", { timeoutMs: 2_100 });
  await env.clock.advance(2_000);
  await refused;
  expect(running()).toBe("a");
  await end();
  expect(inStore.map(({ name, timeoutMs }) => [name, Math.round(timeoutMs)])).toEqual([
    ["c", 1_000],
    ["d", 250],
  ]);
});

it("drops a claim whose caller has gone, and lets those behind it begin", async () => {
  const { env, claim, running } = open();
  void claim("a", { queues: 7 });
  const [leaving, gone] = [new AbortController(), new AbortController()];
  gone.abort();
  const left = claim("b", { queues: 8, signal: leaving.signal });
  const never = claim("c", { queues: 8, signal: gone.signal });
  void claim("d");
  await env.clock.settle();
  expect(running()).toBe("a");
  leaving.abort();
  await env.clock.settle();
  expect(running()).toBe("a d");
  for (const outcome of [left, never]) {
    expect(await outcome).toEqual({ status: "claimed", tasks: [] });
  }
});

it("returns the slots of a claim that fails", async () => {
  const { env } = open();
  const slots = new ClaimSlots(env.clock);
  const request = { queues: names(8), kinds: null };
  const broken = async () => Promise.reject(new Error("broken"));
  await expect(slots.run(request, {}, broken)).rejects.toThrow("broken");
  await nextTurn();
  const nothing: ClaimOutcome = { status: "claimed", tasks: [] };
  expect(await slots.run(request, {}, async () => nothing)).toBe(nothing);
});

it("ends all that wait with no tasks when it is closed", async () => {
  const { env, slots, claim, running, end } = open();
  void claim("a", { queues: 8 });
  const waiting = [claim("b"), claim("c", { queues: 8 })];
  await env.clock.settle();
  slots.close();
  for (const outcome of waiting) expect(await outcome).toEqual({ status: "claimed", tasks: [] });
  await end();
  expect(running()).toBe("");
});

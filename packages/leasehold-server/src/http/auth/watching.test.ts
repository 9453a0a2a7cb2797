/** Requests that wait: how their caller's key, and their connection, end the wait. */
import type { ApiKeyRecord, ApiKeyStore } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { newApiKeyText } from "../../../../leasehold/src/control/index.js";
import { Authenticator } from "./authenticate.js";
import type { Caller } from "./caller.js";

const ANYONE: Caller = {
  namespace: "default",
  role: "admin",
  prefixes: [""],
  actor: "anyone",
  keyId: null,
};

async function open() {
  const env = manualEnv();
  const records = new Map<string, ApiKeyRecord>();
  const state = { reads: 0, waits: Promise.resolve() };
  const refuse = () => Promise.reject(new Error("not called"));
  const keys: ApiKeyStore = {
    async find(id) {
      state.reads += 1;
      await state.waits;
      const record = records.get(id);
      const atMs = env.clock.monotonic();
      return record
        ? { ...record, remainingMs: record.remainingMs && record.remainingMs - atMs }
        : null;
    },
    list: refuse,
    collect: refuse,
    noteUsed: refuse,
    any: async () => records.size > 0,
    existed: async () => records.size > 0,
  };
  const options = { auth: "keys", keys, anyone: ANYONE, hosts: undefined } as const;
  const authenticator = new Authenticator(options, env);
  onTestFinished(() => authenticator.stop());
  /** A caller with a key of its own. */
  const come = async (remainingMs: number | null = null) => {
    const { id, text, digest } = newApiKeyText(env.random);
    const record: ApiKeyRecord = {
      id,
      digest,
      namespace: "a",
      name: "n",
      role: "holder",
      prefixes: [""],
      createdAt: "",
      expiresAt: null,
      remainingMs,
      revoked: false,
      lastUsedAt: null,
      queues: [],
    };
    records.set(id, record);
    const headers = { authorization: `Bearer ${text}` };
    const caller = await authenticator.callerOf(
      new Request("http://localhost", { headers }),
      false,
    );
    return { id, caller, revoke: () => records.set(id, { ...record, revoked: true }) };
  };
  return { env, authenticator, come, state };
}

test("a request that was aborted before its wait begins does not wait", async () => {
  const { authenticator, come } = await open();
  const { caller } = await come();
  const wait = authenticator.watch(caller, AbortSignal.abort());
  expect(wait.signal.aborted).toBe(true);
  wait.stop();
});

test("a wait ends with its request, and its end leaves no timer and no listener", async () => {
  const { env, authenticator, come } = await open();
  const { caller } = await come();
  const request = new AbortController();
  const [first, second] = [1, 2].map(() => authenticator.watch(caller, request.signal));
  first!.stop();
  request.abort();
  expect(first!.signal.aborted).toBe(false);
  expect(second!.signal.aborted).toBe(true);
  second!.stop();
  expect(env.clock.pendingTimers).toBe(0);
});

test("a key that ends by its time or elsewhere ends the waits of its callers within 5 s", async () => {
  const { env, authenticator, come } = await open();
  const [expiring, revoked, other] = [await come(20_000), await come(), await come()];
  const waits = [expiring, revoked, other].map(({ caller }) =>
    authenticator.watch(caller, new AbortController().signal),
  );
  const ended = () => waits.map(({ signal }) => signal.aborted);
  // Many checks find the keys valid, each of which must be followed by another.
  await env.clock.advance(15_000);
  expect(ended()).toEqual([false, false, false]);
  revoked.revoke();
  await env.clock.advance(5_000);
  expect(ended()[1]).toBe(true);
  await env.clock.advance(5_000);
  expect(ended()).toEqual([true, true, false]);
  for (const { stop } of waits) stop();
  await env.clock.advance(5_000);
  expect(env.clock.pendingTimers).toBe(0);
});

test("a key that is revoked through this instance ends all its waits at once, and no other", async () => {
  const { env, authenticator, come } = await open();
  const [revoked, other] = [await come(), await come()];
  const waits = [revoked, revoked, other].map(({ caller }) =>
    authenticator.watch(caller, new AbortController().signal),
  );
  revoked.revoke();
  authenticator.forget(revoked.id);
  await env.clock.advance(0);
  expect(waits.map(({ signal }) => signal.aborted)).toEqual([true, true, false]);
  for (const { stop } of waits) stop();
  expect(env.clock.pendingTimers).toBe(0);
});

test("a key that is changed otherwise does not end the waits of its callers", async () => {
  const { env, authenticator, come } = await open();
  const { id, caller, revoke } = await come();
  const wait = authenticator.watch(caller, new AbortController().signal);
  const { pendingTimers } = env.clock;
  for (let changes = 0; changes < 5; changes += 1) {
    authenticator.forget(id);
    await env.clock.settle();
  }
  await env.clock.advance(3_000);
  expect(wait.signal.aborted).toBe(false);
  expect(env.clock.pendingTimers).toBe(pendingTimers);
  // The checks go on.
  revoke();
  await env.clock.advance(5_000);
  expect(wait.signal.aborted).toBe(true);
  wait.stop();
});

test("a wait that ends during a check of its key leaves no timer", async () => {
  const { env, authenticator, come, state } = await open();
  const { caller } = await come();
  let answer = () => {};
  state.waits = new Promise<void>((resolve) => (answer = resolve));
  const wait = authenticator.watch(caller, new AbortController().signal);
  await env.clock.advance(6_000);
  expect(state.reads).toBe(2);
  wait.stop();
  answer();
  await env.clock.settle();
  expect(wait.signal.aborted).toBe(false);
  await env.clock.advance(60_000);
  expect(env.clock.pendingTimers).toBe(0);
  expect(state.reads).toBe(2);
});

/** A grant whose end was asked for stays over, under a manual clock: Consul may apply the request late. */
import { describe, expect, it } from "vitest";
import { only } from "../../testing/calls.js";
import { manualEnv } from "../../testing/index.js";
import { ConsulClient } from "./connection.js";
import { addressOf } from "./connection-address.js";
import type { Pair } from "./connection-api.js";
import { ConsulLeaseStore } from "./store.js";

const TTL_MS = 3_000;
const SESSION = "s1";
const ASKED = {
  namespace: "default",
  resource: "r",
  leaseId: "a".repeat(48),
  holder: "h",
  ttlMs: TTL_MS,
};

interface Operation {
  readonly Verb: string;
  readonly Key: string;
  readonly Value?: string;
  readonly Index?: number;
}

const lostAnswer = () => new TypeError("fetch failed", { cause: new Error("reset") });

/**
 * A Consul that keeps what is locked and put, and refuses requests that delete unless `deletes` is true.
 * @param loses what of a request; null: nothing
 */
function open(loses: "answer" | "request" | null) {
  const env = manualEnv();
  const pairs = new Map<string, Pair>();
  const late: Operation[][] = [];
  const consul = {
    loses,
    endings: 0,
    /** Whether requests that delete get through. */
    deletes: false,
    /** What the next request, or its answer, waits for. */
    held: { request: Promise.resolve(), answer: Promise.resolve() },
    keys: () => [...pairs.keys()].filter((key) => pairs.get(key)?.Session),
    clear: () => pairs.clear(),
    applyLate() {
      for (const operations of late.splice(0)) transact(operations);
    },
  };
  let index = 10;
  const transact = (operations: Operation[]): Response => {
    const conflict = operations.findIndex(({ Verb, Key, Index }) => {
      const pair = pairs.get(Key);
      if (Verb === "check-index") return pair?.ModifyIndex !== Index;
      if (Verb === "check-not-exists") return pair !== undefined;
      if (Verb === "check-session") return pair?.Session === undefined;
      // A missing key is deleted with success.
      return Verb === "delete-cas" && pair !== undefined && pair.ModifyIndex !== Index;
    });
    if (conflict >= 0) {
      const Errors = [{ OpIndex: conflict, What: "it has changed" }];
      return Response.json({ Errors }, { status: 409 });
    }
    if (operations.some(({ Verb }) => Verb === "delete-cas")) {
      consul.endings += 1;
      if (!consul.deletes) throw lostAnswer();
    }
    if (consul.loses === "request") {
      late.push(operations);
      throw lostAnswer();
    }
    index += 1;
    const results = operations.flatMap(({ Verb, Key, Value = "" }): Pair[] => {
      if (Verb === "get-tree") {
        return Array.from(pairs.values()).filter((pair) => pair.Key.startsWith(Key));
      }
      if (Verb === "delete-cas") pairs.delete(Key);
      if (Verb !== "lock" && Verb !== "cas") return [];
      const Session = Verb === "lock" ? { Session: SESSION } : {};
      const pair = { Key, Value, Flags: 0, CreateIndex: index, ModifyIndex: index, ...Session };
      pairs.set(Key, pair);
      return [pair];
    });
    return Response.json({ Results: results.map((KV) => ({ KV })) });
  };
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(String(input));
    if (pathname === "/v1/catalog/register") return Response.json(true);
    if (pathname === "/v1/session/create") return Response.json({ ID: SESSION });
    if (pathname.startsWith("/v1/session/renew/")) return Response.json([]);
    const { request, answer } = consul.held;
    consul.held = { request: Promise.resolve(), answer: Promise.resolve() };
    await request;
    const response = transact(
      (JSON.parse(String(init?.body)) as { KV: Operation }[]).map(({ KV }) => KV),
    );
    await answer;
    if (consul.loses === "answer") throw lostAnswer();
    return response;
  };
  const { files: _, ...address } = addressOf("consul://a");
  const store = new ConsulLeaseStore(new ConsulClient({ ...address, fetch, env }));
  return { env, consul, store };
}

/** With an acquire of which the request, or the answer, was lost. */
async function openInDoubt(lost: "answer" | "request") {
  const opened = open(lost);
  const [outcome] = await opened.store.acquire([ASKED]);
  expect(outcome).toMatchObject({ status: "failed", applied: "maybe" });
  opened.consul.loses = null;
  return opened;
}

/** The next request, or its answer, waits until the function is called. */
function held(consul: ReturnType<typeof open>["consul"], what: "request" | "answer"): () => void {
  let pass = () => {};
  consul.held[what] = new Promise((resolve) => {
    pass = resolve;
  });
  return pass;
}

it("answers no repeated acquire with a grant that this client has begun to end", async () => {
  const { env, consul, store } = await openInDoubt("answer");
  await env.clock.advance(TTL_MS);
  expect(consul.endings).toBe(1);
  // The lock is still there, and the request that deletes it may be applied at any time.
  expect(only(await store.acquire([ASKED]))).toEqual({ status: "ended" });
  expect(only(await store.renew([ASKED]))).toEqual({ status: "lost", reason: "expired" });
});

it("answers no repeated acquire with a grant that was made after this client looked for it", async () => {
  const { env, consul, store } = await openInDoubt("request");
  await env.clock.advance(TTL_MS);
  expect(consul.endings).toBe(0);
  consul.applyLate();
  // It is ended at the next look.
  expect(only(await store.acquire([ASKED]))).toEqual({ status: "ended" });
});

it("ends no grant before it has answered a repeated acquire that was sent in time", async () => {
  const { env, consul, store } = open(null);
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "acquired", token: 11 });
  const answer = held(consul, "answer");
  const repeated = store.acquire([ASKED]);
  consul.deletes = true;
  await env.clock.advance(TTL_MS);
  expect(consul.endings).toBe(0);
  answer();
  // Counted from before it was sent, so none of it is left.
  expect(only(await repeated)).toMatchObject({ status: "acquired", remainingMs: TTL_MS });
  await env.clock.advance(0);
  expect(consul.endings).toBe(1);
});

it("answers no repeated acquire with a grant that was released after the acquire had read it", async () => {
  const { env, consul, store } = open(null);
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "acquired" });
  const answer = held(consul, "answer");
  const repeated = store.acquire([ASKED]);
  await env.clock.advance(0);
  consul.deletes = true;
  expect(only(await store.release([ASKED]))).toEqual({ status: "released" });
  answer();
  expect(only(await repeated)).toEqual({ status: "ended" });
});

it("answers a repeated acquire with the grant whose answer was lost", async () => {
  const { env, consul, store } = await openInDoubt("answer");
  await env.clock.advance(TTL_MS - 1);
  expect(consul.endings).toBe(0);
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "acquired", token: 11 });
});

it("answers no repeated acquire with a grant that ends, after another of its answers was lost", async () => {
  const { env, consul, store } = await openInDoubt("answer");
  await env.clock.advance(TTL_MS);
  expect(consul.endings).toBe(1);
  // It is asked for as new, since nothing is known of the resource, and this answer is lost too.
  consul.loses = "answer";
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "failed", applied: "maybe" });
  consul.loses = null;
  expect(only(await store.acquire([ASKED]))).toEqual({ status: "ended" });
});

describe("while this client looks for an earlier request of the same lease id, to end it,", () => {
  async function looking() {
    const opened = await openInDoubt("request");
    const { env, consul } = opened;
    consul.deletes = true;
    const look = held(consul, "request");
    await env.clock.advance(TTL_MS);
    return { ...opened, look };
  }

  it("an acquire waits, so that the look does not find it", async () => {
    const { env, consul, store, look } = await looking();
    const acquired = store.acquire([ASKED]);
    await env.clock.advance(0);
    look();
    expect(only(await acquired)).toMatchObject({ status: "acquired", remainingMs: TTL_MS });
    await env.clock.advance(TTL_MS - 1);
    expect(consul.endings).toBe(0);
    await env.clock.advance(1);
    expect(consul.endings).toBe(1);
  });

  it("an acquire that may wait no longer is not sent, and others are not delayed", async () => {
    const { env, consul, store, look } = await looking();
    const other = { ...ASKED, resource: "other", leaseId: "b".repeat(48) };
    const answers = store.acquire([ASKED, other], { timeoutMs: 100 });
    await env.clock.advance(100);
    const [refused, acquired] = await answers;
    expect(refused).toMatchObject({
      status: "failed",
      applied: "no",
      retryable: true,
      error: expect.objectContaining({ message: expect.stringMatching(/^not sent: /) }),
    });
    expect(acquired).toMatchObject({ status: "acquired" });
    look();
    await env.clock.advance(0);
    expect(consul.keys()).toEqual([expect.stringContaining("other")]);
  });
});

it("does not end what is acquired after a release, by a look that was begun before it", async () => {
  const { env, consul, store } = open(null);
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "acquired" });
  consul.deletes = true;
  const look = held(consul, "request");
  await env.clock.advance(TTL_MS);
  expect(only(await store.release([ASKED]))).toEqual({ status: "released" });
  expect(consul.endings).toBe(1);
  // Another client has acquired and released it since, and what it left was collected.
  consul.clear();
  const acquired = store.acquire([ASKED]);
  await env.clock.advance(0);
  look();
  expect(only(await acquired)).toMatchObject({ status: "acquired" });
  await env.clock.advance(TTL_MS - 1);
  expect(consul.endings).toBe(1);
});

it("ends no grant sooner than a renewal has promised that was answered before its acquire", async () => {
  const { env, consul, store } = open(null);
  const answer = held(consul, "answer");
  const first = store.acquire([ASKED]);
  await env.clock.advance(0);
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "acquired" });
  const longer = { ...ASKED, ttlMs: 2 * TTL_MS };
  expect(only(await store.renew([longer]))).toMatchObject({ remainingMs: 2 * TTL_MS });
  answer();
  expect(only(await first)).toMatchObject({ status: "acquired" });
  await env.clock.advance(2 * TTL_MS - 1);
  expect(consul.endings).toBe(0);
});

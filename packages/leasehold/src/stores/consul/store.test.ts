/** A grant whose end was asked for stays over, under a manual clock: Consul may apply the request late. */
import { expect, it } from "vitest";
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

type Operation = { readonly Verb: string; readonly Key: string; readonly Value?: string };

const lostAnswer = () => new TypeError("fetch failed", { cause: new Error("reset") });

/**
 * A Consul that keeps what is locked and put, and refuses requests that delete unless `deletes` is true.
 * @param loses what of a request that changes something; null: nothing
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
    /** Of the next read the answer waits for this. */
    heldRead: null as Promise<void> | null,
    applyLate() {
      for (const operations of late.splice(0)) transact(operations);
    },
  };
  let index = 10;
  const transact = (operations: Operation[]): Response => {
    if (operations.some(({ Verb }) => Verb === "delete-cas")) {
      consul.endings += 1;
      if (!consul.deletes) throw lostAnswer();
    }
    if (operations.some(({ Verb, Key }) => Verb === "check-index" && !pairs.has(Key))) {
      return Response.json({ Errors: [{ OpIndex: 0, What: "it is gone" }] }, { status: 409 });
    }
    if (operations.some(({ Verb, Key }) => Verb === "check-not-exists" && pairs.has(Key))) {
      return Response.json({ Errors: [{ OpIndex: 0, What: "it exists" }] }, { status: 409 });
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
    if (consul.loses === "answer") throw lostAnswer();
    return Response.json({ Results: results.map((KV) => ({ KV })) });
  };
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(String(input));
    if (pathname === "/v1/catalog/register") return Response.json(true);
    if (pathname === "/v1/session/create") return Response.json({ ID: SESSION });
    if (pathname.startsWith("/v1/session/renew/")) return Response.json([]);
    const answer = transact(
      (JSON.parse(String(init?.body)) as { KV: Operation }[]).map(({ KV }) => KV),
    );
    const { heldRead } = consul;
    consul.heldRead = null;
    await heldRead;
    return answer;
  };
  const { files: _, ...address } = addressOf("consul://a");
  const store = new ConsulLeaseStore(new ConsulClient({ ...address, fetch, env }));
  return { env, consul, store };
}

it("answers no repeated acquire with a grant that this client has begun to end", async () => {
  const { env, consul, store } = open("answer");
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "failed", applied: "maybe" });
  consul.loses = null;
  await env.clock.advance(TTL_MS);
  expect(consul.endings).toBe(1);
  // The lock is still there, and the request that deletes it may be applied at any time.
  expect(only(await store.acquire([ASKED]))).toEqual({ status: "ended" });
  expect(only(await store.renew([ASKED]))).toEqual({ status: "lost", reason: "expired" });
});

it("answers no repeated acquire with a grant that was made after this client looked for it", async () => {
  const { env, consul, store } = open("request");
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "failed", applied: "maybe" });
  consul.loses = null;
  await env.clock.advance(TTL_MS);
  expect(consul.endings).toBe(0);
  consul.applyLate();
  // It is ended at the next look.
  expect(only(await store.acquire([ASKED]))).toEqual({ status: "ended" });
});

it("answers no repeated acquire with a grant that ended after the acquire had read it", async () => {
  const { env, consul, store } = open(null);
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "acquired", token: 11 });
  let answer = () => {};
  consul.heldRead = new Promise((resolve) => {
    answer = resolve;
  });
  const repeated = store.acquire([ASKED]);
  consul.deletes = true;
  await env.clock.advance(TTL_MS);
  expect(consul.endings).toBe(1);
  answer();
  expect(only(await repeated)).toEqual({ status: "ended" });
});

it("answers a repeated acquire with the grant whose answer was lost", async () => {
  const { env, consul, store } = open("answer");
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "failed", applied: "maybe" });
  consul.loses = null;
  await env.clock.advance(TTL_MS - 1);
  expect(consul.endings).toBe(0);
  expect(only(await store.acquire([ASKED]))).toMatchObject({ status: "acquired", token: 11 });
});

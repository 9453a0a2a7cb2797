/** Calls to scripted members of a cluster under a manual clock. */
import { expect, it } from "vitest";
import { scripted } from "../../../../../tests/support/worlds/etcd-transport.js";
import { manualEnv } from "../../testing/index.js";
import { EtcdClient, type RequestContext } from "./connection.js";
import type { Method } from "./connection-api.js";
import { saidFailure, unavailable } from "./failures.js";
import { etcd } from "./index.js";

type Step = "ok" | "silent" | "refused" | "reset" | { says: string; afterMs?: number };
const OK: Step = "ok";
const NO_LEADER = { says: "etcdserver: no leader" };
const EXPIRED = { says: "etcdserver: invalid auth token" };

/** @param play what a member does at each request, by its number; the last of its steps repeats */
function open(
  play: readonly (readonly Step[])[],
  user: { name: string; password: string } | null = null,
) {
  const env = manualEnv();
  const asked: { at: number; method: Method; token: string | null }[] = [];
  let tokens = 0;
  const answer = async (endpoint: string, method: Method, { token, signal }: RequestContext) => {
    const at = Number(new URL(endpoint).hostname.slice(1));
    const before = asked.filter((one) => one.at === at && one.method === method).length;
    asked.push({ at, method, token });
    if (method === "Authenticate") {
      tokens += 1;
      return { token: `token-${tokens}` };
    }
    const steps = play[at] ?? [OK];
    const step = steps[Math.min(before, steps.length - 1)] ?? OK;
    if (step === "ok") return { done: true };
    if (step === "refused") throw unavailable(step, "none", "unreachable");
    if (step === "reset") throw unavailable(step, "unknown", "unreachable");
    if (step === "silent") {
      return new Promise((_, reject) => {
        const cancelled = () => reject(unavailable("cancelled", "unknown", "unreachable"));
        signal.addEventListener("abort", cancelled);
      });
    }
    const { says, afterMs } = step;
    if (afterMs) await new Promise<void>((resolve) => env.clock.timer(afterMs, resolve));
    throw saidFailure(says);
  };
  const client = new EtcdClient({
    endpoints: play.map((_, at) => `http://m${at}:2379`),
    user,
    transport: scripted((endpoint, method, _body, context) => answer(endpoint, method, context)),
    env,
  });
  const call = async (repeatable: boolean, timeoutMs = 3_000) => {
    const deadlineMs = env.clock.monotonic() + timeoutMs;
    const calling = client.call({ method: "Txn", body: {}, repeatable, deadlineMs });
    calling.catch(() => {});
    await env.clock.advance(timeoutMs);
    return calling;
  };
  const members = () => asked.splice(0).map(({ at }) => at);
  return { client, clock: env.clock, asked, call, members };
}

it("tries each member once, from the one that answered last", async () => {
  const { call, members } = open([["refused"], ["refused", OK], [OK]]);
  await call(false);
  expect(members()).toEqual([0, 1, 2]);
  await call(false);
  expect(members()).toEqual([2]);
  const down = open([["refused"], ["refused"], ["refused"]]);
  await expect(down.call(true)).rejects.toMatchObject({ error: { outcome: "none" } });
  expect(down.members()).toEqual([0, 1, 2]);
});

it("repeats a call that may have been applied only if that does no harm", async () => {
  for (const step of ["reset", NO_LEADER] as const) {
    const once = open([[step], [OK]]);
    await expect(once.call(false)).rejects.toMatchObject({ error: { outcome: "unknown" } });
    expect(once.members()).toEqual([0]);
    // The next call begins with another member.
    await once.call(false);
    expect(once.members()).toEqual([1]);
    const twice = open([[step], [OK]]);
    expect(await twice.call(true)).toEqual({ done: true });
    expect(twice.members()).toEqual([0, 1]);
  }
});

it("leaves each member of a repeatable call its share of the time", async () => {
  const { call, clock, members } = open([["silent"], ["silent"], [OK]]);
  expect(await call(true, 3_000)).toEqual({ done: true });
  expect(members()).toEqual([0, 1, 2]);
  expect(clock.pendingTimers).toBe(0);
  const only = open([["silent"], [OK]]);
  await expect(only.call(false, 3_000)).rejects.toMatchObject({ error: { outcome: "unknown" } });
  expect(only.members()).toEqual([0]);
});

it("does not go on to other members with what they would all refuse", async () => {
  const refusals = [
    ["etcdserver: requested lease not found", "noLease"],
    ["etcdserver: mvcc: required revision has been compacted", "compacted"],
    ["etcdserver: permission denied", "other"],
  ] as const;
  for (const [says, reason] of refusals) {
    const { call, members } = open([[{ says }], [OK]]);
    await expect(call(true)).rejects.toMatchObject({ reason });
    expect(members()).toEqual([0]);
  }
});

it("authenticates once for all calls, and again when the token has expired, each time", async () => {
  const user = { name: "u", password: "p" };
  const { client, clock, asked } = open([[OK, OK, OK, EXPIRED, OK, EXPIRED, OK]], user);
  const call = async () => {
    const calling = client.call({ method: "Txn", body: {}, repeatable: false });
    await clock.advance(0);
    return calling;
  };
  const [first, second] = [call(), client.call({ method: "Txn", body: {}, repeatable: false })];
  await Promise.all([first, second]);
  for (let round = 0; round < 3; round += 1) expect(await call()).toEqual({ done: true });
  expect(asked.map(({ method, token }) => token ?? method)).toEqual([
    "Authenticate",
    "token-1",
    "token-1",
    "token-1",
    "token-1",
    "Authenticate",
    "token-2",
    "token-2",
    "Authenticate",
    "token-3",
  ]);
});

it("ends the calls in flight when it is closed, and takes no more", async () => {
  const { client, clock } = open([["silent"], ["silent"]]);
  const calls = [1, 2].map(() => client.call({ method: "Txn", body: {}, repeatable: true }));
  const closed = calls.map((call) => expect(call).rejects.toMatchObject({ code: "CLOSED" }));
  await clock.settle();
  client.close();
  await Promise.all(closed);
  await expect(client.call({ method: "Txn", body: {}, repeatable: true })).rejects.toMatchObject({
    code: "CLOSED",
  });
  expect(clock.pendingTimers).toBe(0);
});

it("keeps a login that is newer than the token that was refused", async () => {
  const user = { name: "u", password: "p" };
  // Both calls have the first token, and the second is answered when the first has logged in anew.
  const late = { ...EXPIRED, afterMs: 10 };
  const { client, clock, asked } = open([[OK, EXPIRED, late, OK]], user);
  const call = () => client.call({ method: "Txn", body: {}, repeatable: false });
  const first = call();
  await clock.settle();
  await first;
  const both = [call(), call()];
  await clock.advance(10);
  await Promise.all(both);
  expect(asked.map(({ method, token }) => token ?? method)).toEqual([
    "Authenticate",
    "token-1",
    "token-1",
    "token-1",
    "Authenticate",
    "token-2",
    "token-2",
  ]);
});

it.each([
  "etcdserver: too many requests",
  "etcdserver: not capable",
  "etcdserver: no leader",
  "etcdserver: server stopped",
  "etcdserver: rpc not supported for learner",
])("asks another member after %j", async (says) => {
  const { call, members } = open([[{ says }], [OK]]);
  await call(true);
  expect(members()).toEqual([0, 1]);
  await call(true);
  expect(members()).toEqual([1]);
});

it("opening says why it failed, though loading took most of its time", async () => {
  const env = manualEnv();
  let reads = 0;
  // The clock is read once before anything is loaded.
  const monotonic = () => env.clock.monotonic() + (reads++ === 0 ? 0 : 4_999);
  const opening = etcd({ url: "etcd://127.0.0.1:1" }).open(
    { ...env, clock: { ...env.clock, monotonic } },
    5_000,
  );
  const error: unknown = await opening.catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
  expect((error as Error).message).toContain("http://127.0.0.1:1: No connection established");
  expect((error as Error).message).toContain("ECONNREFUSED");
  expect((error as Error).message).toContain("check that a server runs there");
});

/** Calls to scripted members of a cluster under a manual clock. */
import { expect, it } from "vitest";
import { manualEnv } from "../../testing/index.js";
import { EtcdClient } from "./connection.js";
import { etcd } from "./index.js";
import { JsonTransport } from "./json-transport.js";

type Step = "silent" | "refused" | "reset" | { status: number; body?: object; afterMs?: number };
const OK: Step = { status: 200, body: { done: true } };
const NO_LEADER = { status: 503, body: { message: "etcdserver: no leader" } };
const EXPIRED: Step = { status: 401, body: { message: "etcdserver: invalid auth token" } };

/** @param play what a member does at each request, by its number; the last of its steps repeats */
function open(
  play: readonly (readonly Step[])[],
  user: { name: string; password: string } | null = null,
) {
  const env = manualEnv();
  const asked: { at: number; path: string; token: string | null }[] = [];
  let tokens = 0;
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const { hostname, pathname } = new URL(url);
    const at = Number(hostname.slice(1));
    const headers = init.headers as Record<string, string>;
    if (pathname === "/v3/auth/authenticate") {
      tokens += 1;
      asked.push({ at, path: pathname, token: null });
      return Response.json({ token: `token-${tokens}` });
    }
    const before = asked.filter((one) => one.at === at && one.path === pathname).length;
    asked.push({ at, path: pathname, token: headers["authorization"] ?? null });
    const steps = play[at] ?? [OK];
    const step = steps[Math.min(before, steps.length - 1)] ?? OK;
    if (step === "refused" || step === "reset") {
      const code = step === "refused" ? "ECONNREFUSED" : "ECONNRESET";
      throw new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });
    }
    if (step === "silent") {
      return new Promise((_, reject) => {
        init.signal?.addEventListener("abort", () => reject(init.signal?.reason as Error));
      });
    }
    const { afterMs } = step;
    if (afterMs) await new Promise<void>((resolve) => env.clock.timer(afterMs, resolve));
    return Response.json(step.body ?? {}, { status: step.status });
  };
  const client = new EtcdClient({
    endpoints: play.map((_, at) => `http://m${at}:2379`),
    user,
    transport: new JsonTransport(fetch as typeof globalThis.fetch),
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
  for (const [message, reason] of [
    ["etcdserver: requested lease not found", "noLease"],
    ["etcdserver: mvcc: required revision has been compacted", "compacted"],
    ["etcdserver: permission denied", "other"],
  ]) {
    const { call, members } = open([[{ status: 400, body: { message } }], [OK]]);
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
  expect(asked.map(({ path, token }) => token ?? path.slice(4))).toEqual([
    "auth/authenticate",
    "token-1",
    "token-1",
    "token-1",
    "token-1",
    "auth/authenticate",
    "token-2",
    "token-2",
    "auth/authenticate",
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
  const late = { status: 401, body: { message: "etcdserver: invalid auth token" }, afterMs: 10 };
  const { client, clock, asked } = open([[OK, EXPIRED, late, OK]], user);
  const call = () => client.call({ method: "Txn", body: {}, repeatable: false });
  const first = call();
  await clock.settle();
  await first;
  const both = [call(), call()];
  await clock.advance(10);
  await Promise.all(both);
  expect(asked.map(({ path, token }) => token ?? path.slice(4))).toEqual([
    "auth/authenticate",
    "token-1",
    "token-1",
    "token-1",
    "auth/authenticate",
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
])("asks another member after %j", async (message) => {
  const { call, members } = open([[{ status: 503, body: { message } }], [OK]]);
  await call(true);
  expect(members()).toEqual([0, 1]);
  await call(true);
  expect(members()).toEqual([1]);
});

it("ends by JSON the connection to a member without a leader, by the next request to it", async () => {
  const env = manualEnv();
  const connections: (string | undefined)[] = [];
  const fetch = async (_: string, init: RequestInit) => {
    connections.push((init.headers as Record<string, string>)["connection"]);
    const isFirst = connections.length === 1;
    return Response.json(isFirst ? NO_LEADER.body : {}, { status: isFirst ? 503 : 200 });
  };
  const client = new EtcdClient({
    endpoints: ["http://m0:2379"],
    user: null,
    transport: new JsonTransport(fetch as typeof globalThis.fetch),
    env,
  });
  const call = () => client.call({ method: "Txn", body: {}, repeatable: true }).catch(String);
  for (let calls = 0; calls < 3; calls += 1) await call();
  expect(connections).toEqual([undefined, "close", undefined]);
});

it.each([
  ["etcd://127.0.0.1:1?transport=grpc", "http://127.0.0.1:1: No connection established"],
  ["etcd://127.0.0.1:4?transport=json", "http://127.0.0.1:4: fetch failed"],
])("opening %s says why it failed, though loading took most of its time", async (url, said) => {
  const env = manualEnv();
  let reads = 0;
  // The clock is read once before anything is loaded.
  const monotonic = () => env.clock.monotonic() + (reads++ === 0 ? 0 : 4_999);
  const opening = etcd({ url }).open({ ...env, clock: { ...env.clock, monotonic } }, 5_000);
  const error: unknown = await opening.catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
  expect((error as Error).message).toContain(said);
  expect((error as Error).message).toContain("ECONNREFUSED");
  expect((error as Error).message).toContain("check that a server runs there");
});

/** Calls to scripted agents under a manual clock. */
import { expect, it } from "vitest";
import { manualEnv } from "../../testing/index.js";
import { ConsulClient } from "./connection.js";
import { addressOf } from "./connection-address.js";

function open(url: string, fetch: typeof globalThis.fetch) {
  const env = manualEnv();
  return { env, client: new ConsulClient({ ...addressOf(url), fetch, env }) };
}
const READ = { method: "GET", path: "status/leader", repeatable: true } as const;

it("ends a call in its time though fetch ignores that it is aborted", async () => {
  const { env, client } = open("consul://a", () => new Promise(() => {}));
  const call = client.call({ ...READ, deadlineMs: client.deadline(100) });
  const failed = expect(call).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
    outcome: "unknown",
    message: expect.stringContaining("did not respond within 100 ms"),
  });
  await env.clock.advance(100);
  await failed;
});

it("ends all calls when it closes though fetch ignores that they are aborted", async () => {
  const { client } = open("consul://a", () => new Promise(() => {}));
  const call = client.call(READ);
  client.close();
  await expect(call).rejects.toMatchObject({ code: "CLOSED" });
});

it.each([
  ["read", true, 2],
  ["write", false, 1],
])("asks the next agent after a lost answer to a %s: %s", async (_, repeatable, expected) => {
  const asked: string[] = [];
  const { client } = open("consul://a,b", async (input) => {
    asked.push(new URL(String(input)).host);
    throw new TypeError("fetch failed", { cause: new Error("reset") });
  });
  await expect(client.call({ ...READ, repeatable })).rejects.toMatchObject({ outcome: "unknown" });
  expect(asked).toEqual(["a:8500", "b:8500"].slice(0, expected));
});

it.each([
  [500, "No cluster leader", { code: "STORE_UNAVAILABLE", outcome: "none" }],
  [500, "rpc error getting client: failed to get conn: refused", { outcome: "none" }],
  [500, "leadership lost while committing log", { outcome: "unknown" }],
  [500, "Missing node registration", { code: "STORE_UNAVAILABLE", outcome: "none" }],
  [429, "", { code: "STORE_UNAVAILABLE", outcome: "none" }],
  [403, "Permission denied", { code: "STORE_MISCONFIGURED" }],
  [500, "No path to datacenter", { code: "STORE_MISCONFIGURED" }],
])("reports the status %s, %j, as what it means", async (status, text, expected) => {
  const { client } = open("consul://a", async () => new Response(text, { status }));
  await expect(client.call({ ...READ, repeatable: false })).rejects.toMatchObject(expected);
});

it("asks the next agent after one that stays silent, and begins with it from then on", async () => {
  const asked: string[] = [];
  const { env, client } = open("consul://a,b", async (input) => {
    const { host } = new URL(String(input));
    asked.push(host);
    return host === "a:8500" ? new Promise(() => {}) : new Response("null");
  });
  const call = client.call({ ...READ, deadlineMs: client.deadline(200) });
  await env.clock.advance(100);
  expect(await call).toMatchObject({ status: 200 });
  await client.call(READ);
  expect(asked).toEqual(["a:8500", "b:8500", "b:8500"]);
});

it("ends the connections to agents that cannot serve, until one answers", async () => {
  const connections: (string | null)[] = [];
  const { client } = open("consul://a", async (_, init) => {
    connections.push(new Headers(init?.headers).get("connection"));
    const isRefused = connections.length <= 2;
    return isRefused ? new Response("No cluster leader", { status: 500 }) : new Response("null");
  });
  for (let calls = 0; calls < 4; calls += 1) await client.call(READ).catch(() => {});
  expect(connections).toEqual([null, "close", "close", null]);
});

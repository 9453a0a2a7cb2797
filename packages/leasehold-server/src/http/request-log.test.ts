import { StoreUnavailableError } from "leasehold";
import { createApiKey } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { memory } from "../../../leasehold/src/stores/memory/index.js";
import { createApp } from "./index.js";

type Line = Record<string, unknown>;

async function open() {
  const lines: Line[] = [];
  const log = (fields: object) => void lines.push({ ...fields });
  const env = manualEnv({ logger: { debug: () => {}, info: log, warn: log, error: log } });
  const stores = await memory().open(env);
  const app = createApp({ ...stores, env, version: "test", auth: "keys" });
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const ask = (path: string) => app.fetch(new Request(`http://localhost${path}`));
  const refusals = () => lines.filter(({ event }) => event === "request_refused");
  const leftOut = () => lines.filter(({ event }) => event === "requests_left_out");
  return { app, env, stores, ask, lines, refusals, leftOut };
}

it("logs at most 256 characters of a path, and no part of a lease id at their end", async () => {
  const { ask, refusals } = await open();
  const leaseId = "0123456789abcdef".repeat(2);
  const paths = [
    `/${"x".repeat(255)}`,
    `/${"x".repeat(256)}`,
    `/${"x".repeat(15_000)}`,
    `/${"y".repeat(20)}/${leaseId}${"x".repeat(300)}`,
    // 768 characters are read.
    `/${`${leaseId}-`.repeat(22)}${"y".repeat(20)}${leaseId}`,
    `/${"%2F".repeat(245)}${leaseId}${"x".repeat(15_000)}`,
  ];
  for (const path of paths) expect((await ask(path)).status).toBe(401);
  expect(refusals().map(({ path }) => path)).toEqual([
    `/${"x".repeat(255)}`,
    `/${"x".repeat(255)}...`,
    `/${"x".repeat(255)}...`,
    `/${"y".repeat(20)}/[lease]${"x".repeat(227)}...`,
    `/${"[lease]-".repeat(22)}${"y".repeat(20)}...`,
    `${"/".repeat(246)}...`,
  ]);
});

it("logs 100 lines per second of refused requests without a caller, and how many it left out", async () => {
  const { ask, refusals, leftOut, env } = await open();
  for (let n = 0; n < 250; n += 1) await ask("/v1/locks");
  expect(refusals()).toHaveLength(100);
  expect(leftOut()).toEqual([]);
  await env.clock.advance(1_000);
  expect(leftOut()).toEqual([{ event: "requests_left_out", leftOut: 150 }]);
  await ask("/v1/locks");
  await env.clock.advance(1_000);
  expect(refusals()).toHaveLength(101);
  expect(leftOut()).toHaveLength(1);
});

it("counts requests that fail without a caller too, and says how many when the server closes", async () => {
  const { app, ask, lines, leftOut } = await open();
  await app.close();
  for (let n = 0; n < 101; n += 1) expect((await ask("/v1/locks")).status).toBe(503);
  expect(lines.filter(({ event }) => event === "request_failed")).toHaveLength(100);
  await app.close();
  expect(leftOut()).toEqual([{ event: "requests_left_out", leftOut: 1 }]);
});

it("logs readiness probes of a drain at debug, and a store that fails them as a failure", async () => {
  const { stores } = await open();
  const lines: Line[] = [];
  const log = (fields: object) => void lines.push({ ...fields });
  const debugged: Line[] = [];
  const debug = (fields: object) => void debugged.push({ ...fields });
  const env = manualEnv({ logger: { debug, info: log, warn: log, error: log } });
  const tasks = Object.assign(Object.create(stores.tasks) as typeof stores.tasks, {
    list: () => Promise.reject(new StoreUnavailableError("lost", { outcome: "none" })),
  });
  const app = createApp({ ...stores, tasks, env, version: "test", auth: "keys" });
  onTestFinished(() => app.close());
  const probe = async () => (await app.fetch(new Request("http://localhost/readyz"))).status;
  expect(await probe()).toBe(503);
  expect(lines).toMatchObject([{ event: "request_failed", code: "STORE_UNAVAILABLE" }]);
  app.drain();
  expect(await probe()).toBe(503);
  expect(lines).toHaveLength(1);
  expect(debugged).toMatchObject([{ event: "request_answered", path: "/readyz", status: 503 }]);
});

it("leaves out none of callers that need no key", async () => {
  const { stores } = await open();
  const lines: Line[] = [];
  const log = (fields: object) => void lines.push({ ...fields });
  const env = manualEnv({ logger: { debug: () => {}, info: log, warn: log, error: log } });
  const app = createApp({ ...stores, env, version: "test", auth: "none" });
  onTestFinished(() => app.close());
  for (let n = 0; n < 150; n += 1) {
    await app.fetch(new Request("http://localhost/v1/locks?limit=no"));
  }
  expect(lines.filter(({ event }) => event === "request_refused")).toHaveLength(150);
});

async function openWithKeys() {
  const { app, env, stores, lines, leftOut } = await open();
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const keyOf = async (namespace: string) => {
    const wanted = {
      namespace,
      name: "n",
      role: "viewer",
      prefixes: [""],
      lifetimeMs: null,
    } as const;
    return (await createApiKey(control, env.random, wanted, { actor: "test", reason: null })).text;
  };
  const ask = async (key: string, path: string, times = 1) => {
    const headers = { authorization: `Bearer ${key}` };
    for (let n = 0; n < times; n += 1) {
      await app.fetch(new Request(`http://localhost${path}`, { headers }));
    }
  };
  const paths = () =>
    lines.flatMap(({ event, path }) => (event === "request_refused" ? [path as string] : []));
  return { env, keyOf, ask, paths, leftOut };
}

it("logs 10 lines per second about one key and the beginning of a path, and how many it left out", async () => {
  const { env, keyOf, ask, paths, leftOut } = await openWithKeys();
  const [one, other] = [await keyOf("a"), await keyOf("a")];
  for (let n = 0; n < 15; n += 1) await ask(one, `/api/tasks/wrong-${n}`);
  await ask(other, "/api/tasks/wrong");
  await ask(one, "/v1/locks?limit=no", 12);
  await ask(await keyOf("b"), "/v1/locks?limit=no");
  expect(paths().filter((path) => path.startsWith("/api/tasks/"))).toHaveLength(11);
  expect(paths().filter((path) => path === "/v1/locks")).toHaveLength(11);
  await env.clock.advance(1_000);
  expect(leftOut()).toEqual([{ event: "requests_left_out", namespace: "a", leftOut: 7 }]);
  await ask(one, "/v1/locks?limit=no");
  await env.clock.advance(1_000);
  expect(paths()).toHaveLength(23);
  expect(leftOut()).toHaveLength(1);
});

it("logs 100 lines per second about one tenant, whatever its paths", async () => {
  const { env, keyOf, ask, paths, leftOut } = await openWithKeys();
  const key = await keyOf("a");
  for (let n = 0; n < 150; n += 1) await ask(key, `/${n}`);
  expect(paths()).toHaveLength(100);
  await ask(await keyOf("b"), "/other");
  expect(paths()).toHaveLength(101);
  await env.clock.advance(1_000);
  expect(leftOut()).toEqual([{ event: "requests_left_out", namespace: "a", leftOut: 50 }]);
});

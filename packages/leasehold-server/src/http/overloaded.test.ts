/** What an overloaded instance answers, before and after it has a whole request. */
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { createApp } from "./index.js";

/** An instance that is full: the store does not answer the one demand that it may serve. */
async function open() {
  const lines: Record<string, unknown>[] = [];
  const log = (fields: object) => void lines.push({ ...fields });
  const env = manualEnv({ logger: { debug() {}, info: log, warn: log, error: log } });
  const stores = await memory().open(env);
  const app = createApp({ ...stores, env, version: "1", auth: "none", limits: { inFlight: 1 } });
  let goOn = () => {};
  const gate = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const { get } = stores.leases;
  stores.leases.get = async (keys) => {
    await gate;
    return get.call(stores.leases, keys);
  };
  const first = app.fetch(new Request("http://localhost/v1/locks?resource=r"));
  await env.clock.settle();
  onTestFinished(async () => {
    goOn();
    await first;
    await app.close();
    await stores.close();
  });
  return { app, lines };
}

test("a refusal by the head has the id of the request, and is none for what keeps leases", async () => {
  const { app, lines } = await open();
  const head = { method: "GET", url: "/v1/leases", requestId: "q-1" };
  const refusal = app.refusal?.(head);
  expect(refusal?.status).toBe(429);
  expect(refusal?.headers).toMatchObject({ "x-request-id": "q-1", "retry-after": "1" });
  expect(JSON.parse(refusal?.body ?? "")).toMatchObject({ code: "OVERLOADED", requestId: "q-1" });
  for (const [method, url] of [
    ["POST", "/v1/leases/renew"],
    ["GET", "/healthz"],
    ["GET", "/v1/events"],
    ["DELETE", "/v1/pauses?kind=queue&name=q"],
  ] as const) {
    expect([url, app.refusal?.({ ...head, method, url })]).toEqual([url, null]);
  }
  expect(lines).toMatchObject([{ event: "overloaded", refused: 1, inFlight: 1 }]);
});

test("so has the answer to a whole request", async () => {
  const { app } = await open();
  const headers = { "x-request-id": "q-2" };
  const answer = await app.fetch(new Request("http://localhost/v1/leases", { headers }));
  const { status } = answer;
  expect([status, answer.headers.get("x-request-id"), answer.headers.get("retry-after")]).toEqual([
    429,
    "q-2",
    "1",
  ]);
  expect(await answer.json()).toMatchObject({ code: "OVERLOADED", requestId: "q-2" });
});

/** What a Leasehold server must do wherever it is a guest, seen from its clients. */
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { expect } from "vitest";
import { connect, defineTask } from "../../../packages/leasehold/src/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import { until as untilTrue } from "../../../packages/leasehold/src/testing/waiting.js";

const until = (what: string, isTrue: () => boolean | Promise<boolean>) =>
  untilTrue(expect, what, isTrue);

/** JSON to a path below the app's URL. */
export function sender(url: string, headers: Record<string, string> = {}) {
  return (method: string, path: string, body?: unknown, init: { signal?: AbortSignal } = {}) =>
    fetch(`${url}${path}`, {
      method,
      ...init,
      ...(body === undefined
        ? { headers }
        : {
            headers: { ...headers, "content-type": "application/json" },
            body: JSON.stringify(body),
          }),
    });
}

interface Guest {
  /** With the path below which the app is served. */
  readonly url: string;
  readonly server: Server;
  readonly stores: Stores;
  /** Of an admin, where requests need one. */
  readonly key?: string;
}

const headersOf = ({ key }: Guest): Record<string, string> =>
  key === undefined ? {} : { authorization: `Bearer ${key}` };

function clientOf({ url, key }: Guest, holder?: string) {
  const from = new URL(url);
  from.username = key ?? "";
  return connect(from, holder === undefined ? {} : { holder });
}

export async function exerciseGuest(guest: Guest): Promise<void> {
  await leases(guest);
  await tasks(guest);
  await refusals(guest);
  await disconnect(guest);
  await events(guest);
}

async function leases(guest: Guest): Promise<void> {
  await using one = await clientOf(guest, "one");
  await using other = await clientOf(guest, "other");
  const lease = await one.acquire("door", { metadata: { für: "größer" } });
  expect(await other.tryRun("door", () => "never")).toMatchObject({ ran: false, holder: "one" });
  await lease.renew();
  expect(lease.checkAlive()).toBe(true);
  await lease.release();
  await using next = await other.tryAcquire("door");
  expect(next?.token).toBeGreaterThan(lease.token);
}

async function tasks(guest: Guest): Promise<void> {
  await using tasksClient = await clientOf(guest);
  const client = tasksClient.tasks;
  const double = defineTask<{ n: number; text: string }>("double");
  // Above 64 KiB, so that it comes in more than one piece.
  const text = "größer ".repeat(12_000);
  const { id } = await client.enqueue(double, { n: 21, text });
  // A worker ends with the claim that waits, which is a quarter of its ttl.
  client.work([double.handle(({ n, text }) => ({ n: n * 2, length: text.length }))], {
    ttlMs: 2_000,
  });
  const state = async () => (await client.get(id))?.state;
  await until("the task is done", async () => (await state()) === "done");
  expect((await client.get(id))?.output).toEqual({ n: 42, length: text.length });
}

async function refusals(guest: Guest): Promise<void> {
  const send = sender(guest.url, headersOf(guest));
  for (const [reply, status, code] of [
    [await send("POST", "/v1/leases/acquire", [{ leaseId: 5 }]), 422, "INVALID_REQUEST"],
    [await send("POST", "/v1/leases/acquire", { not: "an array" }), 422, "INVALID_REQUEST"],
    [await send("GET", "/v1/nothing"), 404, "UNKNOWN_ROUTE"],
    [await send("DELETE", "/api/tasks"), 405, "METHOD_NOT_ALLOWED"],
  ] as const) {
    expect([reply.status, await reply.json()]).toEqual([status, expect.objectContaining({ code })]);
    expect(reply.headers.get("content-type")).toBe("application/problem+json");
    expect(reply.headers.get("x-request-id")).toMatch(/^\w+$/);
  }
  // A route without a body.
  expect((await send("POST", "/api/generator/stop")).status).toBe(200);
  expect((await send("GET", "/healthz")).status).toBe(200);
}

/** Who disconnects while it waits for a task takes none. */
async function disconnect(guest: Guest): Promise<void> {
  const { server, stores } = guest;
  const send = sender(guest.url, headersOf(guest));
  const claims = countClaims(stores);
  const closed = closeOfNext(server);
  const gone = new AbortController();
  const wait = { processor: "gone", waitMs: 20_000 };
  const lost = send("POST", "/api/tasks/next", wait, { signal: gone.signal });
  await until("the claim waits", () => claims() > 0);
  gone.abort();
  await expect(lost).rejects.toThrow();
  await closed;
  await send("POST", "/api/tasks", { task_data: 1 });
  const reply = await send("POST", "/api/tasks/next", { processor: "here" });
  const { tasks } = (await reply.json()) as { tasks: object[] };
  expect(tasks).toMatchObject([{ processor: "here", attempt: 1 }]);
}

/** Events come when there are some, not when a buffer is full, until the client disconnects. */
async function events(guest: Guest): Promise<void> {
  const { url, server } = guest;
  await using leases = await clientOf(guest);
  const closed = closeOfNext(server);
  const gone = new AbortController();
  const reply = await fetch(`${url}/v1/events?of=leases`, {
    headers: headersOf(guest),
    signal: gone.signal,
  });
  expect(reply.headers.get("content-type")).toBe("text/event-stream");
  const decoder = new TextDecoder();
  let seen = "";
  const reader = reply.body?.getReader();
  const read = async (pattern: RegExp) => {
    while (!pattern.test(seen)) seen += decoder.decode((await reader?.read())?.value);
  };
  await read(/^event: resync$/m);
  await leases.run("window", () => {});
  await read(/^event: lease$/m);
  gone.abort();
  await closed;
}

/** The end of the answer to the next request. */
async function closeOfNext(server: Server): Promise<void> {
  const [, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  await once(response, "close");
}

/** How many claims have reached the store from now on. */
export function countClaims(stores: Stores): () => number {
  let count = 0;
  const claim = stores.tasks.claim.bind(stores.tasks);
  stores.tasks.claim = (...args) => {
    count += 1;
    return claim(...args);
  };
  return () => count;
}

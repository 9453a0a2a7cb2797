/** Leases on a server: what each call sends, in how many requests, and what comes of the answers. */
import { afterEach, expect, test } from "vitest";
import { newLeaseId, systemRandom } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
import { BOUNDS, fromWireLeaseId } from "../../wire/index.js";
import { http } from "./index.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Sent {
  readonly path: string;
  readonly query: Record<string, string>;
  readonly body: Record<string, unknown>[];
}

async function open(answer: (sent: Sent) => Response, maxBodyBytes = 4 * 1024 * 1024) {
  const calls: Sent[] = [];
  const ttl = { minMs: 1, maxMs: 60_000, stepMs: 1 };
  const capabilities = { namespace: "n", maxBodyBytes, leases: { ttl }, tasks: { ttl } };
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const { pathname: path, searchParams } = new URL(url);
    if (path === "/v1/capabilities") return Response.json(capabilities);
    const body = (init.body ? JSON.parse(init.body as string) : []) as Sent["body"];
    const sent = { path, query: Object.fromEntries(searchParams), body };
    calls.push(sent);
    return answer(sent);
  };
  const source = http({ url: "http://server", fetch: fetch as typeof globalThis.fetch });
  const { leases, close } = await source.open(manualEnv());
  closing.push(close);
  return { calls, leases };
}

const keyOf = (resource: string) => ({ namespace: "n", resource });

test("an acquire sends the metadata of each request, and none where there is none", async () => {
  const { calls, leases } = await open(({ body }) =>
    Response.json(body.map(() => ({ status: "ended" }))),
  );
  const requests = ["a", "b", "c"].map((resource) => ({
    ...keyOf(resource),
    leaseId: newLeaseId(systemRandom),
    holder: "h",
    ttlMs: 5_000,
    ...(resource !== "b" && { metadata: `of ${resource}` }),
  }));
  await leases.acquire(requests);
  const sent = calls.flatMap(({ body }) => body);
  expect(sent.map(({ metadata }) => metadata)).toEqual(["of a", undefined, "of c"]);
  const names = sent.map(({ leaseId }) => fromWireLeaseId(String(leaseId)));
  expect(names).toEqual(requests.map(({ resource, leaseId }) => ({ resource, leaseId })));
});

test("revocations are sent a hundred at a time, in order", async () => {
  const { calls, leases } = await open(({ body }) =>
    Response.json(
      body.map(({ resource }) => ({ status: "revoked", token: Number(resource), freeInMs: 0 })),
    ),
  );
  const resources = Array.from({ length: 250 }, (_, at) => `${at + 1}`);
  const outcomes = await leases.revoke(
    resources.map((resource) => ({ ...keyOf(resource), free: "now" as const, expectedToken: 7 })),
  );
  expect(calls.map(({ body }) => body.length)).toEqual([100, 100, 50]);
  expect(calls[1]?.body[0]).toEqual({ resource: "101", free: "now", expectedToken: 7 });
  expect(outcomes.map((outcome) => "token" in outcome && `${outcome.token}`)).toEqual(resources);
});

test("reads are sent in bodies that the server takes, and their views come in order", async () => {
  const { calls, leases } = await open(
    ({ body }) =>
      Response.json(
        (body as unknown as string[]).map((resource) =>
          resource.endsWith("3") ? null : { resource },
        ),
      ),
    BOUNDS.bodyBytes,
  );
  const keys = Array.from({ length: 1_000 }, (_, at) => keyOf(`${"x".repeat(200)}-${at}`));
  const views = await leases.get(keys);
  expect(calls.length).toBeGreaterThan(2);
  for (const { body } of calls)
    expect(JSON.stringify(body).length).toBeLessThanOrEqual(BOUNDS.bodyBytes);
  expect(views).toEqual(keys.map((key) => (key.resource.endsWith("3") ? null : key)));
});

test("a list asks for what is wanted alone, and the empty prefix is none", async () => {
  const { calls, leases } = await open(() => Response.json({ items: [], nextCursor: null }));
  await leases.list({ namespace: "n", prefix: "" });
  await leases.list({
    namespace: "n",
    prefix: "a/",
    holder: "h",
    expiringWithinMs: 0,
    heldForMs: 0,
  });
  await leases.list({ namespace: "n", renewedOnly: true, states: ["live"], limit: 7, cursor: "c" });
  expect(calls.map(({ query }) => query)).toEqual([
    {},
    { prefix: "a/", holder: "h", expiringWithinMs: "0", heldForMs: "0" },
    { renewedOnly: "true", state: "live", limit: "7", cursor: "c" },
  ]);
});

test("a watch yields whom a change wakes, where the server says so", async () => {
  const events = [
    ["resync", {}],
    ["lease", { resource: "a", wakes: "w" }],
    ["lease", { resource: "b" }],
  ] as const;
  const text = events.map(
    ([name, data], at) => `id: ${at}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`,
  );
  const headers = { "content-type": "text/event-stream" };
  const { leases } = await open(() => new Response(text.join(""), { headers }));
  const stop = new AbortController();
  const found: unknown[] = [];
  for await (const event of leases.watch("n", { signal: stop.signal })) {
    found.push(event);
    if (found.length === events.length) break;
  }
  stop.abort();
  expect(found).toEqual([
    { type: "resync" },
    { type: "changed", ...keyOf("a"), wakes: "w" },
    { type: "changed", ...keyOf("b") },
  ]);
});

import { createServer, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import express from "express";
import { BOUNDS, BUDGET_HEADER } from "leasehold/internal/wire";
import { manualEnv } from "leasehold/testing";
import { afterEach, expect, test, vi } from "vitest";
import { type Asked, openApp } from "../../../../tests/support/server/app.js";
import { exerciseGuest } from "../../../../tests/support/server/guest.js";
import { nodeHandler } from "./index.js";
import { requestListener } from "./node.js";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function open(options: Parameters<typeof openApp>[0] = {}): Promise<Asked> {
  const asked = await openApp(options);
  ends.push(() => asked.close());
  return asked;
}

/** @returns the server's origin */
async function serve(host: Parameters<typeof createServer>[1]): Promise<[string, Server]> {
  const server = createServer(host).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  ends.push(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  );
  return [`http://127.0.0.1:${(server.address() as AddressInfo).port}`, server];
}

const JSON_TYPE = { "content-type": "application/json" };
const post = (url: string, body: string, headers: Record<string, string> = JSON_TYPE) =>
  fetch(url, { method: "POST", headers, body });

test("leaves the global Request and Response to its host", async () => {
  const { Request, Response } = globalThis;
  const { app } = await open();
  const [origin] = await serve(nodeHandler(app));
  expect(await fetch(`${origin}/healthz`)).toBeInstanceOf(Response);
  expect([globalThis.Request, globalThis.Response]).toEqual([Request, Response]);
});

test("refuses a request target with a fragment", async () => {
  const { app } = await open();
  const [origin] = await serve(nodeHandler(app));
  const { hostname, port } = new URL(origin);
  for (const path of ["/v1/locks#/renew", "/healthz#", "/healthz?a#b"]) {
    const answer = await new Promise<IncomingMessage>((resolve) =>
      request({ hostname, port, path }, resolve).end(),
    );
    expect(answer.statusCode).toBe(400);
    expect(JSON.parse(await text(answer))).toMatchObject({ code: "MALFORMED_REQUEST" });
  }
});

test("serves behind a body parser and below mounts that strip their prefix", async () => {
  const { app, stores } = await open();
  const inner = express.Router().use("/leasehold", nodeHandler(app));
  const host = express().use(express.json({ limit: "4mb" }));
  host.use("/api", (_incoming, _outgoing, next) => next(), inner);
  const [origin, server] = await serve(host);
  await exerciseGuest({ url: `${origin}/api/leasehold`, server, stores });
  // The message comes from the parser.
  expect((await post(`${origin}/api/leasehold/api/tasks`, "{")).status).toBe(400);
});

test("an app with a base path works below mounts", async () => {
  const { app } = await open({ basePath: "/api/leasehold" });
  const seen: string[] = [];
  const host = express();
  host.use("/api", express.Router().use("/leasehold", nodeHandler(app)));
  const [origin] = await serve((incoming, outgoing) => {
    outgoing.once("finish", () => {
      seen.push((incoming as express.Request).originalUrl, incoming.url ?? "");
    });
    host(incoming as express.Request, outgoing as express.Response);
  });
  const document = await (await fetch(`${origin}/api/leasehold/openapi.json`)).json();
  expect(document).toMatchObject({ servers: [{ url: "/api/leasehold" }] });
  // Unchanged from Express.
  expect(seen).toEqual(["/api/leasehold/openapi.json", "/openapi.json"]);
});

const BODY = '{ "task_data": "größer" }';

/** Handlers before the app: how they read the body, and where they keep it. */
const readers: Readonly<Record<string, (incoming: Incoming) => Promise<void>>> = {
  "reads nothing": async () => {},
  "leaves an empty object and the stream, as Express 4 did": async (incoming) => {
    incoming.body = {};
  },
  "parses to req.body": async (incoming) => {
    incoming.body = JSON.parse(await text(incoming));
  },
  "keeps text as req.body": async (incoming) => {
    incoming.body = await text(incoming);
  },
  "keeps bytes as req.body": async (incoming) => {
    incoming.body = Buffer.from(await text(incoming));
  },
  "keeps bytes as req.rawBody": async (incoming) => {
    incoming.rawBody = Buffer.from(await text(incoming));
    incoming.body = { not: "this" };
  },
  "keeps text as req.rawBody": async (incoming) => {
    incoming.rawBody = await text(incoming);
  },
};
type Incoming = IncomingMessage & { body?: unknown; rawBody?: unknown };

/** With and without a declared length. */
const framings: readonly ((url: string) => Promise<number | undefined>)[] = [
  async (url) => (await post(url, BODY)).status,
  (url) =>
    new Promise((resolve, reject) => {
      const headers = { ...JSON_TYPE, "transfer-encoding": "chunked" };
      const sent = request(url, { method: "POST", headers }, (answer) => {
        answer.resume().once("end", () => resolve(answer.statusCode));
      });
      sent.once("error", reject).end(BODY);
    }),
];

test.each(Object.entries(readers))("serves in a host that %s", async (_, read) => {
  const { app, stores } = await open();
  const handle = nodeHandler(app);
  const [origin] = await serve((incoming, outgoing) => {
    void read(incoming).then(() => handle(incoming, outgoing));
  });
  for (const send of framings) expect(await send(`${origin}/api/tasks`)).toBe(201);
  const { items } = await stores.tasks.list({ namespace: "default" });
  const data = await Promise.all(
    items.map(
      async (task) => (await stores.tasks.get({ namespace: "default", id: task.id }))?.data,
    ),
  );
  expect(data).toEqual(["größer", "größer"]);
});

test("reports a body that another handler has read and not kept", async () => {
  const { app } = await open();
  const handle = nodeHandler(app);
  const [origin] = await serve((incoming, outgoing) => {
    void text(incoming).then(() => handle(incoming, outgoing));
  });
  const reply = await post(`${origin}/api/tasks`, BODY);
  expect([reply.status, await reply.json()]).toMatchObject([
    500,
    { code: "INTERNAL", detail: expect.stringContaining("read by another handler") },
  ]);
  // A request without a body has nothing to lose.
  expect((await fetch(`${origin}/healthz`)).status).toBe(200);
  expect((await fetch(`${origin}/api/generator/stop`, { method: "POST" })).status).toBe(200);
});

test("validates a parsed body like any other", async () => {
  const { app } = await open();
  const host = express().use(express.json({ strict: false, limit: "9mb" }), nodeHandler(app));
  const [origin] = await serve(host);
  for (const [body, status] of [
    ["null", 422],
    ["5", 422],
    ["[]", 422],
    ['{"task_data":1,"more":2}', 422],
    // Its length was declared.
    [`{"task_data":"${"x".repeat(BOUNDS.payloadBodyBytes)}"}`, 413],
  ] as const) {
    const reply = await post(`${origin}/api/tasks`, body);
    expect([body.slice(0, 30), reply.status]).toEqual([body.slice(0, 30), status]);
  }
  const form = { "content-type": "application/x-www-form-urlencoded" };
  expect((await post(`${origin}/api/tasks`, "task_data=1", form)).status).toBe(415);
});

test("answers requests that cannot be parsed", async () => {
  const { app } = await open();
  const [origin] = await serve(nodeHandler(app));
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request(origin, { headers: { host: "a b" } }, resolve)
      .once("error", reject)
      .end();
  });
  expect(answer.statusCode).toBe(400);
  expect(answer.headers["content-type"]).toBe("application/problem+json");
  expect(JSON.parse(await text(answer))).toMatchObject({ code: "MALFORMED_REQUEST" });
});

test("answers late once many probes were answered in a second, and files apart from them", async () => {
  const { clock } = manualEnv();
  const fetched = async () => new Response("ok");
  const listener = requestListener(
    { basePath: "", fetch: fetched },
    { overrideGlobalObjects: false, clock },
  );
  const [url] = await serve(listener);
  const read = async (path: string) => (await fetch(new URL(path, url))).text();
  for (let round = 0; round < 10; round += 1) {
    await Promise.all(
      Array.from({ length: 100 }, (_, at) => read(at % 2 ? "/healthz" : "/readyz")),
    );
  }
  const late = read("/healthz");
  await vi.waitUntil(() => clock.pendingTimers === 1);
  expect(await read("/openapi.json")).toBe("ok");
  await clock.advance(2_000);
  expect(await late).toBe("ok");
});

test("sends two files without a caller in each period, in order", async () => {
  const { clock } = manualEnv();
  const served: string[] = [];
  const answered: string[] = [];
  const fetched = async (asked: Request) => {
    served.push(new URL(asked.url).pathname);
    return new Response("ok");
  };
  const listener = requestListener(
    { basePath: "", fetch: fetched },
    { overrideGlobalObjects: false, clock },
  );
  const [url] = await serve(listener);
  const reads: Promise<unknown>[] = [];
  for (const path of ["/a", "/b", "/c", "/d", "/e"]) {
    reads.push(fetch(new URL(path, url)).then(() => answered.push(path)));
    await vi.waitUntil(() => served.includes(path));
  }
  await Promise.all(reads.slice(0, 2));
  expect(answered.sort()).toEqual(["/a", "/b"]);
  await clock.advance(10);
  await Promise.all(reads.slice(2, 4));
  expect(answered.sort()).toEqual(["/a", "/b", "/c", "/d"]);
  await clock.advance(10);
  await Promise.all(reads);
});

test.each([401, 422, 429])(
  "answers late once many callers without a key were refused in a second (%i)",
  async (status) => {
    const { clock } = manualEnv();
    const app = { basePath: "", fetch: async () => new Response(null, { status }) };
    const [url] = await serve(requestListener(app, { overrideGlobalObjects: false, clock }));
    const statusOf = async (headers = {}) => (await fetch(url, { headers })).status;
    const prompt = Array.from({ length: 200 }, () => statusOf());
    expect(new Set(await Promise.all(prompt))).toEqual(new Set([status]));
    let answered = 0;
    const late = [{}, {}, { [BUDGET_HEADER]: "1000" }].map(async (headers) => {
      expect(await statusOf(headers)).toBe(status);
      answered += 1;
    });
    await vi.waitUntil(() => clock.pendingTimers === 3);
    expect(answered).toBe(0);
    await clock.advance(500);
    await vi.waitUntil(() => answered === 1);
    await clock.advance(1_500);
    await Promise.all(late);
    expect(await statusOf()).toBe(status);
  },
);

test("sends refusals that were kept waiting in several turns", async () => {
  const { clock } = manualEnv();
  const timers: (() => void)[] = [];
  const timer: typeof clock.timer = (_, callback) => {
    timers.push(callback);
    return { cancel() {} };
  };
  let turn = 0;
  let counting = setImmediate(function count() {
    turn += 1;
    counting = setImmediate(count);
  });
  ends.push(async () => clearImmediate(counting));
  const app = { basePath: "", fetch: async () => new Response(null, { status: 401 }) };
  const sent: number[] = [];
  const listener = requestListener(app, {
    overrideGlobalObjects: false,
    clock: { wall: () => 0, monotonic: () => 0, timer },
    onAnswer: () => void sent.push(turn),
  });
  const [url] = await serve(listener);
  await Promise.all(Array.from({ length: 200 }, () => fetch(url)));
  sent.length = 0;
  const late = Promise.all(Array.from({ length: 60 }, () => fetch(url)));
  await vi.waitUntil(() => timers.length === 60);
  for (const end of timers) end();
  await late;
  const inTurn = sent.map((each) => sent.filter((other) => other === each).length);
  expect(inTurn).toHaveLength(60);
  expect(Math.max(...inTurn)).toBeLessThanOrEqual(10);
});

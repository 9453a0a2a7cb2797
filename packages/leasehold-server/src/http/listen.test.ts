import diagnostics from "node:diagnostics_channel";
import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Stores } from "leasehold";
import { createApiKey, sleep, systemClock, systemEnv } from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { afterEach, expect, test } from "vitest";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { createApp, type Listening, type ListenOptions, listen } from "./index.js";

const opened: { server: Listening; stores: Stores }[] = [];
async function open(options: Partial<ListenOptions> = {}) {
  const stores = await memory().open(systemEnv);
  const app = createApp({ ...stores, auth: "ifAny", version: "test" });
  const server = await listen({ app, port: 0, ...options });
  opened.push({ server, stores });
  const post = (path: string, body: unknown, init: { signal?: AbortSignal } = {}) =>
    fetch(`${server.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      ...init,
    });
  return { app, server, stores, post };
}
afterEach(async () => {
  for (const { server, stores } of opened.splice(0)) {
    await server.close();
    await stores.close();
  }
});

/** Sends bytes and returns all that the server sends until it closes the connection. */
function raw(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket: Socket = createConnection(port, "127.0.0.1", () => socket.write(text));
    let answer = "";
    socket.setEncoding("utf8");
    socket.on("data", (data: string) => {
      answer += data;
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
  });
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await sleep(systemClock, 5);
}

test("serves on a free port of loopback and returns its URL", async () => {
  const { server } = await open();
  expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
  const reply = await fetch(`${server.url}/healthz`);
  expect(await reply.json()).toEqual({ status: "ok", version: "test" });
  await expect(open({ port: server.port })).rejects.toMatchObject({ code: "EADDRINUSE" });
});

const LARGE = "x".repeat(300 * 1_024);
const LENGTH = `content-length: ${LARGE.length}\r\n\r\n${LARGE}`;
const CHUNKED = `transfer-encoding: chunked\r\n\r\n${LARGE.length.toString(16)}\r\n${LARGE}\r\n0\r\n\r\n`;
test.each([
  [413, "POST /v1/leases/acquire", LENGTH],
  [413, "POST /v1/leases/acquire", CHUNKED],
  [404, "POST /v1/none", LENGTH],
  [404, "POST /v1/none", CHUNKED],
  [405, "PUT /v1/leases/acquire", LENGTH],
  [422, "DELETE /v1/pauses?kind=resource&name=r", LENGTH],
  [422, "GET /v1/leases", LENGTH],
])("answers the request that follows a %i to %s with a large body", async (status, line, body) => {
  const { server } = await open();
  const refused = `${line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${body}`;
  const next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  const answers = await raw(server.port, refused + next);
  expect([...answers.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, code]) => Number(code))).toEqual([
    status,
    200,
  ]);
});

test.each([6000, 10_080, 2049])("refuses port %d, to which fetch never connects", async (port) => {
  const { app } = await openTestApp();
  await expect(listen({ app, port })).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path: "port",
    message: expect.stringContaining(`port ${port} is blocked by fetch`),
  });
});

test("a caller that disconnects claims no task", async () => {
  const { stores, post } = await open();
  const gone = new AbortController();
  let claims = 0;
  const claim = stores.tasks.claim.bind(stores.tasks);
  stores.tasks.claim = (...args) => {
    claims += 1;
    return claim(...args);
  };
  const lost = post(
    "/api/tasks/next",
    { processor: "gone", waitMs: 20_000 },
    {
      signal: gone.signal,
    },
  );
  await until(async () => claims > 0);
  gone.abort();
  await expect(lost).rejects.toThrow();
  // The server notices the disconnect later; it would requeue a task that came before.
  const waiting = post("/api/tasks/next", { processor: "here", waitMs: 20_000 });
  await post("/api/tasks", { task_data: 1 });
  const { tasks } = (await (await waiting).json()) as { tasks: { processor: string }[] };
  expect(tasks).toMatchObject([{ processor: "here" }]);
  expect((await stores.tasks.counts("default")).running).toBe(1);
});

test("close ends waits, lets requests end, and refuses later ones", async () => {
  const { server, stores, post } = await open();
  let answer: (() => void) | undefined;
  const counts = stores.tasks.counts.bind(stores.tasks);
  stores.tasks.counts = async (namespace) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return counts(namespace);
  };
  let claims = 0;
  const claim = stores.tasks.claim.bind(stores.tasks);
  stores.tasks.claim = (...args) => {
    claims += 1;
    return claim(...args);
  };
  const slow = fetch(`${server.url}/api/tasks/counts`);
  const waiting = post("/api/tasks/next", { processor: "p", waitMs: 30_000 });
  await until(async () => answer !== undefined && claims > 0);
  const closed = server.close();
  expect((await waiting).status).toBe(204);
  await expect(fetch(`${server.url}/healthz`)).rejects.toThrow();
  answer?.();
  const reply = await slow;
  expect(reply.status).toBe(200);
  expect(reply.headers.get("connection")).toBe("close");
  await closed;
  await server.close();
});

test("close cuts off requests that do not end in time", async () => {
  const { server, stores } = await open({ graceMs: 50 });
  let asked = false;
  stores.tasks.counts = () => {
    asked = true;
    return new Promise(() => {});
  };
  const never = fetch(`${server.url}/api/tasks/counts`);
  never.catch(() => {});
  await until(async () => asked);
  await server.close();
  await expect(never).rejects.toThrow();
});

test("malformed HTTP is refused, and the server continues", async () => {
  const { server } = await open();
  const head = (line: string, headers = "host: localhost\r\n") =>
    `${line}\r\n${headers}connection: close\r\n\r\n`;
  for (const [text, status] of [
    ["nonsense\r\n\r\n", 400],
    [head("GET / HTTP/1.1", "host: a b\r\n"), 400],
    [head("GET \\..\\x HTTP/1.1"), 400],
    [head("GET /api/tasks/%ZZ HTTP/1.1"), 404],
    [head("GET http://x/healthz HTTP/1.1"), 200],
    [head("GET /healthz HTTP/1.1", `host: localhost\r\nx: ${"y".repeat(20_000)}\r\n`), 431],
    [
      head(
        "POST /api/tasks HTTP/1.1",
        "host: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n",
      ),
      400,
    ],
  ] as const) {
    const answer = await raw(server.port, text);
    expect([text.slice(0, 40), answer.slice(0, 13)]).toEqual([
      text.slice(0, 40),
      `HTTP/1.1 ${status} `,
    ]);
    if (status === 400 && text.includes("host: a b")) {
      expect(answer).toContain("urn:leasehold:problem:malformed-request");
    }
  }
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});

test("bodies are limited, with a declared length and in chunks", async () => {
  const { server } = await open();
  const send = (headers: string, body: string) =>
    raw(
      server.port,
      `POST /api/tasks/next HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n${headers}\r\n\r\n${body}`,
    );
  const right = '{"processor":"p"}';
  expect(await send(`content-length: ${right.length}`, right)).toContain("HTTP/1.1 204 ");
  const chunked = `${right.length.toString(16)}\r\n${right}\r\n0\r\n\r\n`;
  expect(await send("transfer-encoding: chunked", chunked)).toContain("HTTP/1.1 204 ");
  const large = `"${"x".repeat(BOUNDS.bodyBytes)}"`;
  expect(await send(`content-length: ${large.length}`, large)).toContain("HTTP/1.1 413 ");
  const largeChunk = `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`;
  expect(await send("transfer-encoding: chunked", largeChunk)).toContain("HTTP/1.1 413 ");
  // The declared length decides before the body is read.
  expect(await send("content-length: 99999999999", "")).toContain("HTTP/1.1 413 ");
});

test("a body that ends early does not affect other requests", async () => {
  const { server } = await open();
  const socket = createConnection(server.port, "127.0.0.1");
  socket.write(
    'POST /api/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"task',
  );
  await new Promise((resolve) => socket.once("connect", resolve));
  socket.destroy();
  const reply = await fetch(`${server.url}/api/tasks/counts`);
  expect(await reply.json()).toMatchObject({ pending: 0 });
});

test.each([
  ["of known length", "Content-Length: 100\r\n\r\n{", "MALFORMED_JSON"],
  ["in chunks", "Transfer-Encoding: chunked\r\n\r\n64\r\n{", "MALFORMED_REQUEST"],
])(
  "a caller that disconnects in the middle of a body %s is no failure of the server",
  async (_, body, code) => {
    const stores = await memory().open(systemEnv);
    const lines: object[] = [];
    let answered = () => {};
    const refused = new Promise<void>((resolve) => {
      answered = resolve;
    });
    const note = (level: string) => (fields: object) => {
      lines.push({ level, ...fields });
      if ("status" in fields) answered();
    };
    const env = {
      logger: {
        debug: note("debug"),
        info: note("info"),
        warn: note("warn"),
        error: note("error"),
      },
    };
    const app = createApp({ ...stores, env, auth: "ifAny", version: "test" });
    const server = await listen({ app, port: 0 });
    opened.push({ server, stores });
    const head =
      "POST /v1/locks/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    const socket = createConnection(server.port, "127.0.0.1", () => {
      socket.write(head + body, () => socket.resetAndDestroy());
    });
    socket.on("error", () => {});
    await refused;
    const line = { level: "info", status: 400, code };
    expect(lines.filter((each) => "status" in each)).toMatchObject([line]);
  },
);

test("frees pipelined responses when their connection is cut", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const { server } = await open();
  const answers: WeakRef<object>[] = [];
  const started = (message: unknown) => {
    answers.push(new WeakRef((message as { response: object }).response));
  };
  diagnostics.subscribe("http.server.request.start", started);
  const body = JSON.stringify({ processor: "p", waitMs: 30_000 });
  const head = `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  const waiting = `POST /api/tasks/next HTTP/1.1\r\n${head}\r\n${body}`;
  const socket = createConnection(server.port, "127.0.0.1", () => {
    socket.write(waiting + "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5));
  });
  await until(async () => answers.length === 6);
  diagnostics.unsubscribe("http.server.request.start", started);
  socket.destroy();
  await until(async () => {
    collect();
    return answers.every((answer) => answer.deref() === undefined);
  });
});

/** With a header of a proxy after `count` others. */
function requestWithHeaders(count: number): string {
  return `GET /v1/leases HTTP/1.1\r\nHost: localhost\r\n${"a:\r\n".repeat(count)}X-Forwarded-For: 10.0.0.1\r\n\r\n`;
}

const CHUNKED_TASK = '\r\nf\r\n{"task_data":1}\r\n0\r\n\r\n';
test.each([
  ["two headers Host", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n\r\n"],
  ["equal headers Host", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n"],
  [
    "a transfer coding before chunked",
    `POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n${CHUNKED_TASK}`,
  ],
  ["more headers than proxies admit", requestWithHeaders(201)],
])("refuses %s, and closes the connection", async (_, request) => {
  const { server } = await open();
  const answer = await raw(server.port, request);
  expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
  expect(answer).toContain("MALFORMED_REQUEST");
  // Nothing that follows is taken for a request.
  expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
});

test("refuses so many headers that node drops those of a proxy, and closes the connection", async () => {
  const { server } = await open();
  const answer = await raw(server.port, requestWithHeaders(2_000));
  // Node answers them itself from some release of each of its lines on, and has dropped them before.
  expect(answer).toMatch(/^HTTP\/1\.1 4(00 Bad Request|31 Request Header Fields Too Large)\r\n/);
  expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
});

test("asks for the body of a request only when its caller is known", async () => {
  const { server, stores } = await open();
  const key = await createApiKey(
    stores.control!,
    systemEnv.random,
    { namespace: "n", name: "n", role: "admin", prefixes: [], lifetimeMs: null },
    { actor: "test", reason: null },
  );
  const body = JSON.stringify({ task_data: 1 });
  const ask = (headers: string, length = body.length) =>
    `POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\nExpect: 100-continue\r\n${headers}\r\n`;
  const unknown = `Authorization: Bearer lh_${"0".repeat(12)}_${"0".repeat(32)}\r\n`;
  expect(await raw(server.port, ask(unknown))).toMatch(/^HTTP\/1\.1 401 [^]*connection: close/i);
  const known = `Authorization: Bearer ${key.text}\r\n`;
  expect(await raw(server.port, ask(known, 10_000_000))).toMatch(/^HTTP\/1\.1 413 /);
  const socket = createConnection(server.port, "127.0.0.1", () => socket.write(ask(known)));
  const next = async () => String((await once(socket, "data"))[0]);
  expect(await next()).toBe("HTTP/1.1 100 Continue\r\n\r\n");
  socket.write(body);
  expect(await next()).toMatch(/^HTTP\/1\.1 201 [^]*connection: keep-alive/i);
  // The connection serves the next request.
  socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  expect(await next()).toMatch(/^HTTP\/1\.1 200 /);
  socket.destroy();
});

test("answers CONNECT with 405 and closes the connection", async () => {
  const { server } = await open();
  const target = `127.0.0.1:${server.port}`;
  const answer = await raw(server.port, `CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n\r\n`);
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n/);
  expect(head).toContain(`content-length: ${body.length}`);
  expect(head).toContain("connection: close");
  expect(JSON.parse(body)).toMatchObject({ status: 405, code: "METHOD_NOT_ALLOWED" });
});

test("a CONNECT behind an unanswered request is cut off, and no answer to it comes first", async () => {
  const { server } = await open();
  const wait = JSON.stringify({ processor: "p", queues: ["q"], waitMs: 30_000 });
  const claim = `POST /api/tasks/next HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${wait.length}\r\n\r\n${wait}`;
  expect(await raw(server.port, `${claim}CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n`)).toBe("");
});

test("drains: refuses to be ready, ends each connection with its next response, and serves on", async () => {
  const { server, post } = await open();
  const lines = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  const kept = createConnection(server.port, "127.0.0.1", () => kept.write(lines("/readyz")));
  const [ready] = (await once(kept, "data")) as [Buffer];
  expect(String(ready)).toMatch(/^HTTP\/1\.1 200 [\s\S]*connection: keep-alive/i);
  server.drain();
  let rest = "";
  kept.on("data", (data) => {
    rest += String(data);
  });
  kept.write(lines("/healthz"));
  await once(kept, "close");
  expect(rest).toMatch(/^HTTP\/1\.1 200 [\s\S]*connection: close/i);
  const refused = await fetch(`${server.url}/readyz`);
  expect([refused.status, await refused.json()]).toMatchObject([503, { code: "CLOSING" }]);
  const acquired = await post("/v1/locks/acquire", { resource: "r", ownerId: "o" });
  expect(acquired.status).toBe(200);
});

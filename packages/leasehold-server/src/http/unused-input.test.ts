/** Bodies of routes that take none, over HTTP and in the process. */
import { Agent, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import express from "express";
import { expect, onTestFinished, test } from "vitest";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { ID, LEASE_ID } from "../../../../tests/support/server/input-examples.js";
import { listen, nodeHandler } from "./index.js";

const ROUTES = [
  ["POST", "/api/generator/start", true],
  ["POST", "/api/generator/stop", true],
  ["POST", `/api/tasks/${ID}/cancel`, true],
  ["POST", `/api/tasks/${ID}/retry`, true],
  ["DELETE", `/api/tasks/${ID}`, true],
  ["DELETE", "/v1/keys/0123456789ab", true],
  ["DELETE", "/v1/pauses?kind=resource&name=r", true],
  ["DELETE", `/v1/locks/${LEASE_ID}`, false],
] as const;

/** Sends requests with a body of any method, one after the other on one connection. */
function sender(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return async (method: string, path: string, body: string, headers: Record<string, string>) => {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request(new URL(path, url), { method, headers, agent }, resolve)
        .once("error", reject)
        .end(body);
    });
    const sent = await text(answer);
    const { detail } = (sent === "" ? {} : JSON.parse(sent)) as { detail?: string };
    return { status: answer.statusCode, detail };
  };
}

async function open() {
  const opened = await openTestApp();
  const server = await listen({ app: opened.app, port: 0, host: "127.0.0.1" });
  onTestFinished(() => server.close());
  return { ...opened, send: sender(server.url) };
}

test.each(ROUTES)("%s %s refuses a body, and names ?reason= if it has it: %s", async (...route) => {
  const [method, path, hasReason] = route;
  const { ask, send } = await open();
  const remedy = "the body: must be empty, because this route takes none";
  const detail = hasReason ? `${remedy}: send the reason as ?reason=` : remedy;
  for (const [body, type] of [
    ['{"reason":"asked to"}', "application/json"],
    ["<reason>asked to</reason>", "text/xml"],
    ["x".repeat(100_000), "text/plain"],
    ["null", "application/json"],
  ] as const) {
    const json = { "content-type": type };
    expect((await ask(method, path, body, { headers: json })).body).toMatchObject({
      status: 422,
      detail,
    });
    for (const headers of [
      { ...json, "content-length": `${body.length}` },
      { "transfer-encoding": "chunked" },
    ]) {
      expect(await send(method, path, body, headers)).toEqual({ status: 422, detail });
    }
  }
});

test("a body that says nothing is as none", async () => {
  const { ask, send } = await open();
  for (const body of ["", "{}", " { }\n"]) {
    for (const path of ["/api/generator/start", "/api/generator/stop?reason=why"]) {
      expect((await ask("POST", path, body)).status, body).toBe(200);
      for (const headers of [
        { "content-length": `${body.length}` },
        { "content-type": "application/json" },
        { "transfer-encoding": "chunked" },
      ]) {
        expect((await send("POST", path, body, headers)).status, body).toBe(200);
      }
    }
  }
});

const READS = [
  "/v1/limits",
  "/v1/leases?limit=1",
  "/v1/capabilities",
  "/api/tasks",
  "/api/generator",
  "/openapi.json",
];
const NOT_EMPTY = {
  status: 422,
  detail: "the body: must be empty, because this route takes none",
};

test.each(READS)("GET and HEAD %s refuse a body", async (path) => {
  const { send } = await open();
  for (const body of ['{"leases":1}', "null", "x".repeat(100_000)]) {
    for (const headers of [
      { "content-type": "application/json", "content-length": `${body.length}` },
      { "transfer-encoding": "chunked" },
    ]) {
      expect(await send("GET", path, body, headers)).toEqual(NOT_EMPTY);
      expect((await send("HEAD", path, body, headers)).status).toBe(422);
    }
  }
  for (const body of ["", "{}"]) {
    const headers = { "content-length": `${body.length}` };
    expect((await send("GET", path, body, headers)).status, body).toBe(200);
    expect((await send("HEAD", path, body, headers)).status, body).toBe(200);
  }
});

test("probes may send a body", async () => {
  const { send } = await open();
  const headers = { "content-length": "2" };
  for (const path of ["/healthz", "/readyz"]) {
    expect((await send("GET", path, "hi", headers)).status).toBe(200);
  }
});

test("a GET's body is refused too if a body parser has read it", async () => {
  const { app } = await openTestApp();
  const host = express().use(express.json(), express.text(), nodeHandler(app));
  const server = host.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => new Promise((resolve) => server.close(() => resolve())));
  const send = sender(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  for (const [body, type, answer] of [
    ['{"leases":1}', "application/json", NOT_EMPTY],
    ["leases=1", "text/plain", NOT_EMPTY],
    ["{}", "application/json", { status: 200 }],
  ] as const) {
    const headers = { "content-type": type, "content-length": `${body.length}` };
    expect(await send("GET", "/v1/limits", body, headers)).toMatchObject(answer);
  }
});

test("the body of a route that reads it is left to the route", async () => {
  const { app } = await openTestApp();
  const body = JSON.stringify({ task_data: 1 });
  const headers = { "content-type": "application/json", "content-length": `${body.length}` };
  const request = new Request("http://localhost/api/tasks", { method: "POST", headers, body });
  // On node, this would make a Request of the platform and its streams.
  Object.defineProperty(request, "body", {
    get: () => expect.unreachable("the stream of the body is used"),
  });
  expect((await app.fetch(request)).status).toBe(201);
});

/** Bodies of routes that take none, over HTTP and in the process. */
import { type IncomingMessage, request } from "node:http";
import { json } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { openTestApp } from "../../../../tests/support/app.js";
import { ID, LEASE_ID } from "../../../../tests/support/input-examples.js";
import { listen } from "./index.js";

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

async function open() {
  const opened = await openTestApp();
  const server = await listen({ app: opened.app, port: 0, host: "127.0.0.1" });
  onTestFinished(() => server.close());
  const send = async (
    method: string,
    path: string,
    body: string,
    headers: Record<string, string>,
  ) => {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request(new URL(path, server.url), { method, headers }, resolve)
        .once("error", reject)
        .end(body);
    });
    const { detail } = (await json(answer)) as { detail?: string };
    return { status: answer.statusCode, detail };
  };
  return { ...opened, send };
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

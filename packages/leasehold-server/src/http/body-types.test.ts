/** Bodies without a JSON content type, over HTTP: what `curl -d` sends is served, a web page's form is not. */
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { newKey } from "../../../../tests/support/browser/console.js";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { type AppOptions, listen } from "./index.js";

const FORM = "application/x-www-form-urlencoded";
const TASK = '{"task_data":1}';

async function open(options: Pick<AppOptions, "auth"> = {}) {
  const { app, stores } = await openTestApp(options);
  const server = await listen({ app, port: 0, host: "127.0.0.1" });
  onTestFinished(() => server.close());
  const send = async (
    body: string | Uint8Array,
    headers: Record<string, string>,
    { method = "POST", path = "/api/tasks" } = {},
  ) => {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request(new URL(path, server.url), { method, headers }, resolve)
        .once("error", reject)
        .end(body);
    });
    const { code, id, detail } = JSON.parse(await text(answer));
    return { status: answer.statusCode, code, id, detail };
  };
  return { send, stores };
}

test("JSON is accepted with the types that clients send by default, or none", async () => {
  const { send } = await open();
  const agent = { "user-agent": "curl/8.5.0" };
  for (const type of [FORM, "text/plain;charset=UTF-8"]) {
    expect(await send(TASK, { ...agent, "content-type": type })).toMatchObject({ status: 201 });
  }
  expect(await send(TASK, agent)).toMatchObject({ status: 201 });
  const chunked = { "content-type": FORM, "transfer-encoding": "chunked" };
  expect(await send(TASK, chunked)).toMatchObject({ status: 201 });
  // The schema applies as it does to any JSON.
  expect(await send('{"data":1}', { "content-type": FORM })).toMatchObject({ status: 422 });
});

test("a body of these types that is not JSON is 415", async () => {
  const { send } = await open();
  for (const body of ["task_data=1", "{", "task_data"]) {
    const reply = await send(body, { "content-type": FORM });
    expect(reply).toMatchObject({ status: 415, code: "UNSUPPORTED_MEDIA_TYPE" });
    expect(reply.detail).toContain("application/json (the body is not JSON: line 1, column ");
  }
  const rounded = await send('{"task_data":[1970670598291982290]}', { "content-type": FORM });
  expect(rounded).toMatchObject({ status: 422, code: "INVALID_REQUEST" });
});

test("a body of these types that a web page may have sent is 415 without a key", async () => {
  // Otherwise pages of other origins would be 403.
  const { send, stores } = await open({ auth: "none" });
  const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
  for (const type of [FORM, "text/plain", "multipart/form-data; boundary=x", undefined]) {
    for (const sign of [
      { origin: "https://evil.example" },
      { origin: "null" },
      { origin: "http://127.0.0.1" },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-origin" },
      { referer: "https://evil.example/" },
      { cookie: "session=1" },
      { "user-agent": browser },
    ]) {
      const headers = { ...sign, ...(type !== undefined && { "content-type": type }) };
      const { status, code } = await send(TASK, headers);
      expect([headers, status, code]).toEqual([headers, 415, "UNSUPPORTED_MEDIA_TYPE"]);
    }
  }
  expect((await stores.tasks.list({ namespace: "default" })).items).toEqual([]);
});

test("a request with a key is served with any of these types: no page can send its key", async () => {
  const { send, stores } = await open({ auth: "keys" });
  const key = await newKey(stores, "admin");
  const page = { origin: "https://evil.example", "content-type": FORM };
  expect(await send(TASK, page)).toMatchObject({ status: 401 });
  const authorization = `Bearer ${key}`;
  expect(await send(TASK, { ...page, authorization })).toMatchObject({ status: 201 });
  // What a browser itself adds for a page is no key of this server.
  const basic = `Basic ${btoa(`x:${key}`)}`;
  expect(await send(TASK, { ...page, authorization: basic })).toMatchObject({ status: 401 });
});

test("a body that is not UTF-8 is refused, whatever its type and length say", async () => {
  const { send, stores } = await open();
  // "café" in Latin-1, and a character that is cut off.
  for (const bytes of [
    [0x63, 0x61, 0x66, 0xe9],
    [0x63, 0xe2, 0x82],
  ]) {
    const quoted = [...Buffer.from('{"task_data":"'), ...bytes, ...Buffer.from('"}')];
    for (const headers of [
      { "content-type": "application/json" },
      { "content-type": "application/json", "transfer-encoding": "chunked" },
      { "content-type": FORM },
    ]) {
      const reply = await send(Uint8Array.from(quoted), headers);
      expect(reply).toMatchObject({ status: 400, code: "MALFORMED_JSON" });
      expect(reply.detail).toContain("not UTF-8");
    }
  }
  expect((await stores.tasks.list({ namespace: "default" })).items).toEqual([]);
});

test("U+FFFD that a client encoded itself is text like any other", async () => {
  const { send, stores } = await open();
  const { id } = await send('{"task_data":"\ufffd"}', { "content-type": "application/json" });
  expect((await stores.tasks.get({ namespace: "default", id }))?.data).toBe("\ufffd");
});

test("a body in another charset or content encoding is 415, naming it", async () => {
  const { send } = await open();
  for (const type of ["application/json; charset=iso-8859-1", 'text/plain;charset="UTF-16"']) {
    const reply = await send(TASK, { "content-type": type });
    expect(reply).toMatchObject({ status: 415, code: "UNSUPPORTED_MEDIA_TYPE" });
    expect(reply.detail).toMatch(/iso-8859-1|UTF-16/);
  }
  const json = { "content-type": "application/json" };
  const zipped = await send(gzipSync(TASK), { ...json, "content-encoding": "gzip" });
  expect(zipped).toMatchObject({ status: 415, code: "UNSUPPORTED_MEDIA_TYPE" });
  expect(zipped.detail).toContain("gzip");
  for (const headers of [
    { ...json, "content-encoding": "identity" },
    { "content-type": "application/json; Charset=UTF8" },
    { "content-type": "application/json;charset=us-ascii" },
  ]) {
    expect(await send(TASK, headers)).toMatchObject({ status: 201 });
  }
});

/** The guard in front of real servers. */
import { once } from "node:events";
import { request } from "node:http";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { FENCED_SERVERS, type Site } from "../../../../tests/support/server/fenced-servers.js";
import { silentLogger } from "../env/index.js";
import { fencing, memoryGuard } from "./index.js";

let open: Site | undefined;
afterEach(() => open?.close());

describe.each(FENCED_SERVERS)("fencing in %s", (_, start) => {
  const post = async (token?: number | string) => {
    const headers: Record<string, string> =
      token === undefined ? {} : { "Fencing-Token": String(token) };
    const response = await fetch(open?.url ?? "", { method: "POST", headers });
    return {
      status: response.status,
      type: response.headers.get("content-type"),
      text: await response.text(),
    };
  };

  it("answers 428 without a token, 400 to nonsense, 412 to an old one", async () => {
    let worked = 0;
    open = await start(async () => `done ${(worked += 1)}`);
    const missing = await post();
    expect(missing).toMatchObject({ status: 428, type: expect.stringContaining("problem+json") });
    expect(JSON.parse(missing.text)).toMatchObject({ type: "TOKEN_REQUIRED", status: 428 });
    for (const nonsense of ["x", "1.5", "0", "-1", "99999999999999999"]) {
      expect((await post(nonsense)).status).toBe(400);
    }
    expect(await post(10)).toMatchObject({ status: 200, text: "done 1" });
    expect(await post(10)).toMatchObject({ status: 200, text: "done 2" });
    expect(await post(11)).toMatchObject({ status: 200, text: "done 3" });
    const stale = await post(10);
    expect(stale).toMatchObject({ status: 412, type: expect.stringContaining("problem+json") });
    expect(JSON.parse(stale.text)).toMatchObject({ type: "STALE_TOKEN", token: 10, lastToken: 11 });
    expect(worked).toBe(3);
  });

  it("lets a newer holder in when the older one's answer is done, not before", async () => {
    const begun: string[] = [];
    const gates: (() => void)[] = [];
    open = await start(async () => {
      begun.push("work");
      await new Promise<void>((resolve) => gates.push(resolve));
      return "done";
    });
    const older = post(10);
    await expect.poll(() => begun.length).toBe(1);
    const newer = post(11);
    const late = older.then(() => post(10));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(begun.length).toBe(1);
    gates[0]?.();
    expect((await older).status).toBe(200);
    await expect.poll(() => begun.length).toBe(2);
    gates[1]?.();
    expect((await newer).status).toBe(200);
    expect((await late).status).toBe(412);
  });

  it("lets the next holder in after a handler that failed", async () => {
    // Hono prints what its handlers throw.
    const printed = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => printed.mockRestore());
    const store = memoryGuard();
    let fails = true;
    open = await start(async () => {
      if (fails) throw new Error("the handler failed");
      return "done";
    }, store);
    expect((await post(10)).status).toBe(500);
    fails = false;
    expect(await post(11)).toMatchObject({ status: 200, text: "done" });
    expect((await post(10)).status).toBe(412);
  });

  it("is left by a client that disconnects while it waits", async () => {
    const gates: (() => void)[] = [];
    open = await start(async () => {
      await new Promise<void>((resolve) => gates.push(resolve));
      return "done";
    });
    const older = post(10);
    await expect.poll(() => gates.length).toBe(1);
    const waiting = request(open.url, { method: "POST", headers: { "Fencing-Token": "11" } });
    const gone = new Promise((resolve) => waiting.once("error", resolve));
    const connected = new Promise((resolve) => waiting.once("finish", resolve));
    waiting.end();
    await connected;
    // Its headers have been read once a later request of the same process has been answered.
    expect((await post()).status).toBe(428);
    waiting.destroy();
    await gone;
    expect((await post()).status).toBe(428);
    gates[0]?.();
    expect((await older).status).toBe(200);
    const newest = post(12);
    // The server may have noticed too late that the client has gone.
    const opened = setInterval(() => gates.forEach((open) => open()), 20);
    expect((await newest).status).toBe(200);
    clearInterval(opened);
  });
});

/** A response of Node, as far as the guard uses it. */
function fakeResponse(closed = false) {
  const sent: { headers: Record<string, string>; text?: string | undefined } = { headers: {} };
  const onClose: (() => void)[] = [];
  return {
    sent,
    statusCode: 200,
    closed,
    setHeader: (name: string, value: string) => (sent.headers[name] = value),
    end(text?: string) {
      sent.text = text;
    },
    once: (_: "close", listener: () => void) => onClose.push(listener),
    close: () => onClose.forEach((listener) => listener()),
  };
}

function fakeReply(closed = false) {
  const reply = {
    raw: fakeResponse(closed),
    said: [] as unknown[],
    code: (status: number) => {
      reply.said.push(status);
      return reply;
    },
    type: () => reply,
    hijack: () => reply,
    send: (body: unknown) => reply.said.push(body),
  };
  return reply;
}

describe("fencing", () => {
  const asking = (token: string | string[]) => ({ headers: { "fencing-token": token } });
  const open = (store = memoryGuard()) => fencing({ store, resource: () => "r" });
  const unavailable = new Error("the database is unavailable");
  const broken = { refusals: 0, guard: () => Promise.reject(unavailable) };
  const calledOf = async (token: string | string[]) => {
    const response = fakeResponse();
    let called = false;
    await open().express(asking(token), response, () => (called = true));
    response.close();
    return called ? "admitted" : response.statusCode;
  };

  it.each<[string | string[], "admitted" | 400]>([
    ["0", 400],
    ["1", "admitted"],
    ["9007199254740991", "admitted"],
    ["9007199254740992", 400],
    [["1"], "admitted"],
    [["1", "2"], 400],
    [[], 400],
  ])("answers the token %j with %s", async (token, expected) => {
    expect(await calledOf(token)).toBe(expected);
  });

  it("passes errors of the guard on to the server", async () => {
    const { express, fastify, node } = open(broken);
    const response = fakeResponse();
    const passed: unknown[] = [];
    await express(asking("1"), response, (error) => passed.push(error));
    expect(passed).toEqual([unavailable]);
    await expect(fastify(asking("1"), fakeReply())).rejects.toBe(unavailable);
    const handled: string[] = [];
    node(() => handled.push("handled"))(asking("1"), response);
    await expect.poll(() => response.sent.text).toBe("");
    expect(response.statusCode).toBe(500);
    expect(handled).toEqual([]);
  });

  it.each([
    ["rejects", () => Promise.reject(unavailable)],
    [
      "throws",
      () => {
        throw unavailable;
      },
    ],
  ])("answers 500 for a handler of Node's http that %s, and logs its error", async (_, fail) => {
    const response = fakeResponse();
    const logged = vi.fn();
    const logger = { ...silentLogger, error: logged };
    const { node } = fencing({ store: memoryGuard(), resource: () => "r", logger });
    node(fail)(asking("1"), response);
    await expect.poll(() => response.sent.text).toBe("");
    expect(response.statusCode).toBe(500);
    expect(logged.mock.calls).toEqual([[{ err: unavailable }, "a fenced request failed"]]);
    response.close();
  });

  it("reports the error of a handler of Node's http as a warning of the process by default", async () => {
    const warned = once(process, "warning");
    const response = fakeResponse();
    open().node(() => Promise.reject(unavailable))(asking("1"), response);
    expect(await warned).toMatchObject([{ code: "LEASEHOLD_W_REQUEST_FAILED" }]);
    response.close();
  });

  it.each([
    [undefined, "it returned undefined"],
    ["", "it returned an empty string"],
    [Object.create(null), "it returned an object"],
  ])("names the option if the resource of a request is %j", async (resource, problem) => {
    const { express, fastify, node } = fencing({
      store: memoryGuard(),
      resource: () => resource as string,
    });
    const refused = expect.objectContaining({
      code: "INVALID_OPTION",
      path: "resource",
      message: expect.stringContaining(problem),
    });
    const passed: unknown[] = [];
    await express(asking("1"), fakeResponse(), (error) => passed.push(error));
    expect(passed).toEqual([refused]);
    await expect(fastify(asking("1"), fakeReply())).rejects.toEqual(refused);
    const response = fakeResponse();
    node(() => passed.push("handled"))(asking("1"), response);
    await expect.poll(() => response.sent.text).toContain(`resource must return`);
    expect(response.statusCode).toBe(500);
    expect(JSON.parse(response.sent.text ?? "")).toMatchObject({
      type: "INVALID_OPTION",
      status: 500,
      detail: expect.stringContaining(problem),
    });
    expect(passed).toHaveLength(1);
  });

  it("works no more for a client that has gone, and answers it nothing", async () => {
    const store = memoryGuard();
    const { express, fastify, node } = open(store);
    const worked: string[] = [];
    const responses = [fakeResponse(true), fakeResponse(true)];
    const [first, second] = responses;
    await express(asking("1"), first!, () => worked.push("Express"));
    node(() => worked.push("Node's http"))(asking("2"), second!);
    const reply = fakeReply(true);
    expect(await fastify(asking("3"), reply)).toBe(reply);
    // It waits for all that came before it.
    await store.guard("r", 4, () => {});
    expect(worked).toEqual([]);
    expect(reply.said).toEqual([]);
    for (const { statusCode, sent } of responses) {
      expect({ statusCode, sent }).toEqual({ statusCode: 200, sent: { headers: {} } });
    }
  });

  it("works no more for a client of Hono that has gone, and always where requests have no signal", async () => {
    const { hono } = open();
    const worked: string[] = [];
    const asked = async (token: string, signal?: AbortSignal) => {
      const req = { header: () => token, ...(signal && { raw: { signal } }) };
      return (await hono({ req }, async () => void worked.push(token)))?.status;
    };
    expect(await asked("1", AbortSignal.abort())).toBe(499);
    expect(worked).toEqual([]);
    expect(await asked("2", new AbortController().signal)).toBeUndefined();
    expect(await asked("3")).toBeUndefined();
    expect(worked).toEqual(["2", "3"]);
  });

  it("lets a hook of Fastify go on when the request is admitted", async () => {
    const reply = fakeReply();
    expect(await open().fastify(asking("1"), reply)).toBeUndefined();
    expect(reply.said).toEqual([]);
    reply.raw.close();
  });
});

it("refuses options that cannot work", () => {
  expect(() => fencing({ resource: () => "r" } as never)).toThrow(/store must be a guard/);
  expect(() => fencing({ store: {} as never, resource: () => "r" })).toThrow(
    /store must be a guard/,
  );
  expect(() => fencing({ store: memoryGuard(), resource: "r" as never })).toThrow(
    /resource must be/,
  );
});

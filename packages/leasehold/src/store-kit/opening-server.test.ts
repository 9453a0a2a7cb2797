/** A server of another kind at the address of a store. */
import { createServer } from "node:http";
import { type AddressInfo, createServer as createSocketServer, type Server } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { StoreMisconfiguredError, StoreUnavailableError } from "../lease/errors.js";
import { manualEnv } from "../testing/index.js";
import { checkServer, expectedHttp, OtherServerError, openServer } from "./opening-server.js";

async function addressOf(server: Server) {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { host: "127.0.0.1", port };
}
const web = () => addressOf(createServer((_, response) => response.end("a page")));
/** Says nothing, whatever it is asked. */
const mute = () => addressOf(createSocketServer((socket) => socket.on("data", () => {})));

function open(expected: Parameters<typeof openServer>[0]) {
  const env = manualEnv();
  const closed: string[] = [];
  let settle: { opened(): void; failed(error: unknown): void } = { opened() {}, failed() {} };
  const opening = new Promise<string>((resolve, reject) => {
    settle = { opened: () => resolve("opened"), failed: reject };
  });
  const result = openServer(expected, env, opening, async (late) => closed.push(late));
  result.catch(() => {});
  return { env, result, closed, settle };
}
const down = new StoreUnavailableError("down", { outcome: "none" });

it("is not looked at if the store opens soon, or fails for good", async () => {
  const address = await web();
  const soon = open({ addresses: [address], protocol: "Redis" });
  soon.settle.opened();
  expect(await soon.result).toBe("opened");
  expect(soon.env.clock.pendingTimers).toBe(0);
  const wrong = open({ addresses: [address], protocol: "Redis" });
  const password = new Error("wrong password");
  wrong.settle.failed(password);
  await expect(wrong.result).rejects.toBe(password);
  const missing = open({ addresses: [address], protocol: "Redis" });
  const database = new StoreMisconfiguredError("there is no such database");
  missing.settle.failed(database);
  await expect(missing.result).rejects.toBe(database);
  expect(wrong.env.clock.pendingTimers).toBe(0);
});

it("is named with its remedy when the store fails for a while", async () => {
  const address = await web();
  const at = `127.0.0.1:${address.port}`;
  const plain = open({ addresses: [address], protocol: "Redis" });
  plain.settle.failed(down);
  await expect(plain.result).rejects.toMatchObject({
    code: "STORE_MISCONFIGURED",
    message: expect.stringContaining(`${at} answers as HTTP, not as Redis: correct host and port`),
    cause: down,
  });
  const other = open({ addresses: [address], protocol: "Redis" });
  other.settle.failed(new OtherServerError("it does not speak Redis"));
  await expect(other.result).rejects.toThrow(`${at} answers as HTTP, not as Redis`);
  const tls = open(expectedHttp([`https://${at}`]));
  tls.settle.failed(down);
  await expect(tls.result).rejects.toMatchObject({
    message: expect.stringContaining(`${at} answers as HTTP, not as TLS: it has no TLS`),
  });
});

it("is named when the store takes long, and what opens later is closed", async () => {
  const address = await web();
  const { env, result, closed, settle } = open({ addresses: [address], protocol: "Redis" });
  await env.clock.advance(399);
  expect(env.clock.pendingTimers).toBe(1);
  await env.clock.advance(1);
  await expect(result).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
  settle.opened();
  await expect.poll(() => closed).toEqual(["opened"]);
});

it("is not named if it answers as it should, or one of several does not answer otherwise", async () => {
  const [page, silent] = [await web(), await mute()];
  const right = open({ addresses: [page], protocol: "HTTP" });
  right.settle.failed(down);
  await expect(right.result).rejects.toBe(down);
  const several = open({ addresses: [page, silent], protocol: "Redis" });
  several.settle.failed(down);
  await expect(several.result).rejects.toBe(down);
  const both = open({ addresses: [page, await web()], protocol: "Redis" });
  both.settle.failed(down);
  await expect(both.result).rejects.toThrow(/:\d+, 127\.0\.0\.1:\d+ answers as HTTP/);
  const none = open({ addresses: [], protocol: "Redis" });
  none.settle.failed(down);
  await expect(none.result).rejects.toBe(down);
});

it("is not waited for by a store that opens after a while", async () => {
  const silent = await mute();
  const { env, result, settle, closed } = open({ addresses: [silent], protocol: "HTTP" });
  await env.clock.advance(400);
  settle.opened();
  expect(await result).toBe("opened");
  expect(closed).toEqual([]);
});

it("is waited for by its store if it is of the right kind, however slow", async () => {
  const server = createServer((_, response) => response.end("a page"));
  const asked = new Promise((resolve) =>
    server.once("connection", (socket) => socket.once("close", resolve)),
  );
  const { env, result, settle } = open({ addresses: [await addressOf(server)], protocol: "HTTP" });
  await env.clock.advance(400);
  await asked;
  await env.clock.settle();
  settle.opened();
  expect(await result).toBe("opened");
});

it("is named before a store opens by TLS, and is not looked for by another protocol", async () => {
  const page = await web();
  const https = expectedHttp([`https://127.0.0.1:${page.port}`]);
  await expect(checkServer(https)).rejects.toMatchObject({
    code: "STORE_MISCONFIGURED",
    message: expect.stringMatching(/answers as HTTP, not as TLS: it has no TLS$/),
  });
  await expect(checkServer({ addresses: [page], protocol: "Redis" })).resolves.toBeUndefined();
  const silent = await mute();
  await expect(checkServer({ addresses: [silent], protocol: "TLS" })).resolves.toBeUndefined();
});

it.each([
  ["http://a.example", { host: "a.example", port: 80 }, "HTTP"],
  ["https://a.example", { host: "a.example", port: 443 }, "TLS"],
  ["http://[::1]:4040/base", { host: "::1", port: 4040 }, "HTTP"],
  ["https://a.example:8443", { host: "a.example", port: 8443 }, "TLS"],
])("the address of %s is %o by %s", (url, address, protocol) => {
  const expected = expectedHttp([url]);
  expect(expected).toMatchObject({ addresses: [address], protocol });
  const remedy = protocol === "HTTP" ? { TLS: /TLS/ } : { HTTP: /no TLS/ };
  const [[other, text]] = Object.entries(remedy) as [[keyof typeof expected.remedies, RegExp]];
  expect(expected.remedies?.[other]).toMatch(text);
});

it("no address is expected to answer by HTTP", () => {
  expect(expectedHttp([])).toMatchObject({ addresses: [], protocol: "HTTP" });
});

import { createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { createApiKey, systemEnv } from "leasehold/internal";
import { expect, onTestFinished, test } from "vitest";
import { expectProblem, openTestApp, type Reply } from "../../../../../tests/support/server/app.js";
import { createApp } from "../app.js";
import type { AppOptions } from "../app-options.js";
import { nodeHandler } from "../node.js";

const KEY = { name: "me", role: "admin" };

/** The answer to a request without a key that creates one. */
async function answer(
  url: string,
  headers: Record<string, string> = {},
  options: Pick<AppOptions, "auth" | "trustedHosts"> = {},
  remoteAddress = "127.0.0.1",
): Promise<Reply> {
  const { app } = await openTestApp(options);
  const init = { method: "POST", body: JSON.stringify(KEY) };
  const asked = new Request(`${url}/v1/keys`, {
    ...init,
    headers: { "content-type": "application/json", ...headers },
  });
  const response = await app.fetch(asked, { remoteAddress });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

test.each([
  "Forwarded",
  "X-Forwarded",
  "X-Forwarded-For",
  "X-Forwarded-Host",
  "X-Original-Host",
  "X-Real-IP",
  "X-Client-IP",
  "X-Cluster-Client-IP",
  "True-Client-IP",
  "CF-Connecting-IP",
  "X-Envoy-External-Address",
  "Via",
])(
  "a request without a key and with the header %s is refused, because its caller may be anywhere",
  async (header) => {
    const forwarded = { [header]: "127.0.0.1" };
    const refused = await answer("http://localhost", forwarded);
    expectProblem(refused, 403, "FORBIDDEN");
    expect(refused.body.detail).toContain("leasehold keys create");
    // The host authenticates callers; any caller may do everything.
    for (const options of [{ auth: "none" }, { trustedHosts: "any" }] as const) {
      expect((await answer("http://localhost", forwarded, options)).status).toBe(201);
    }
  },
);

test("a forwarded request with a key is served, wherever its caller is", async () => {
  const { ask } = await openTestApp();
  const { key } = (await ask("POST", "/v1/keys", KEY)).body;
  const headers = { authorization: `Bearer ${key}`, "x-forwarded-for": "10.0.0.1" };
  expect((await ask("GET", "/v1/keys", undefined, { headers })).status).toBe(200);
});

test.each([
  ["http://localhost:4040", { origin: "http://localhost:4040" }, 201],
  ["http://[::1]:4040", { origin: "http://[::1]:4040" }, 201],
  ["http://localhost:4040", { origin: "http://localhost:3000" }, 403],
  ["http://localhost:4040", { origin: "http://localhost" }, 403],
  ["http://localhost:4040", { origin: "https://localhost:4040" }, 403],
  ["http://localhost:4040", { origin: "http://127.0.0.1:4040" }, 403],
  ["http://localhost:4040", { origin: "https://page.example" }, 403],
  ["http://localhost:4040", { origin: "null" }, 403],
  ["http://localhost:4040", { "sec-fetch-site": "cross-site" }, 403],
  ["http://localhost:4040", { "sec-fetch-site": "same-site" }, 403],
  ["http://localhost:4040", { "sec-fetch-site": "Cross-Site" }, 403],
  ["http://localhost:4040", { "sec-fetch-site": "same-origin, cross-site" }, 403],
  ["http://localhost:4040", { "sec-fetch-site": "same-origin" }, 201],
  ["http://localhost:4040", { "sec-fetch-site": "none" }, 201],
  [
    "http://localhost:4040",
    { "sec-fetch-site": "same-origin", origin: "https://localhost:4040" },
    201,
  ],
] as const)("without a key, %s serves a page with %j: %s", async (url, headers, status) => {
  expect((await answer(url, headers)).status).toBe(status);
  // Any host may call, but no page of another origin.
  expect((await answer(url, headers, { trustedHosts: "any" })).status).toBe(status);
});

test.each([
  ["http://127.0.0.1", {}, 201],
  ["http://rebound.example", {}, 403],
  ["http://192.168.1.5:3000", {}, 403],
  ["http://rebound.example", { trustedHosts: "any" }, 201],
  ["http://here.example", { trustedHosts: ["here.example"] }, 201],
  ["http://localhost", { trustedHosts: ["here.example"] }, 403],
  ["http://rebound.example", { auth: "none" }, 201],
  ["http://rebound.example", { auth: "none", trustedHosts: ["here.example"] }, 403],
] as const)("without a key, the host of %s with %j: %s", async (url, options, status) => {
  expect((await answer(url, {}, options)).status).toBe(status);
});

test.each([
  ["127.0.0.1", {}, 201],
  ["127.3.2.1", {}, 201],
  ["::1", {}, 201],
  ["::ffff:127.0.0.1", {}, 201],
  ["192.168.1.7", {}, 403],
  ["::ffff:10.0.0.1", {}, 403],
  ["fe80::1", {}, 403],
  ["192.168.1.7", { trustedHosts: "any" }, 201],
  ["192.168.1.7", { trustedHosts: ["localhost", "here.example"] }, 201],
  ["192.168.1.7", { auth: "none" }, 201],
] as const)("without a key, a caller at %s with %j: %s", async (address, options, status) => {
  expect((await answer("http://localhost", {}, options, address)).status).toBe(status);
});

test("an app requires keys, unless its host says otherwise", async () => {
  const { stores } = await openTestApp();
  const app = createApp({ ...stores, version: "1" });
  onTestFinished(() => app.close());
  expect((await app.fetch(new Request("http://localhost/v1/locks"))).status).toBe(401);
});

test("a store without keys needs a host that says who may call", async () => {
  const opening = openTestApp({ auth: "keys", control: undefined });
  const message = expect.stringMatching(/"none".*"ifAny"/);
  await expect(opening).rejects.toMatchObject({ code: "INVALID_OPTION", path: "auth", message });
});

test("node's handler tells the address: another machine that claims localhost is refused", async (context) => {
  const address = Object.values(networkInterfaces())
    .flat()
    .find((found) => found?.family === "IPv4" && !found.internal)?.address;
  if (address === undefined) return context.skip("this machine has no network");
  const { app } = await openTestApp();
  const server = createServer(nodeHandler(app)).listen(0);
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const statusFrom = async (host: string) => {
    const got = await new Promise<IncomingMessage>((resolve) =>
      request({ host, port, path: "/v1/locks", headers: { host: "localhost" } }, resolve).end(),
    );
    got.resume();
    return got.statusCode;
  };
  expect([await statusFrom("127.0.0.1"), await statusFrom(address)]).toEqual([200, 403]);
});

test("a request without a key is refused if the host does not say where it is from", async () => {
  const { app, stores } = await openTestApp();
  const ask = (headers: Record<string, string> = {}) =>
    app.fetch(new Request("http://localhost/v1/leases", { headers }), { remoteAddress: undefined });
  const refused = await ask();
  expect(refused.status).toBe(403);
  expect(await refused.json()).toMatchObject({
    code: "FORBIDDEN",
    detail: expect.stringContaining("pass { remoteAddress } to app.fetch"),
  });
  // What needs no caller, and a caller with a key, are served.
  const health = new Request("http://localhost/healthz");
  expect((await app.fetch(health, { remoteAddress: undefined })).status).toBe(200);
  const { text } = await createApiKey(
    stores.control!,
    systemEnv.random,
    { namespace: "n", name: "n", role: "viewer", prefixes: [""], lifetimeMs: null },
    { actor: "test", reason: null },
  );
  expect((await ask({ authorization: `Bearer ${text}` })).status).toBe(200);
});

import { openStores } from "leasehold";
import { expect, it } from "vitest";
import { openApp } from "../../../../tests/support/server/app.js";
import { createApp } from "./app.js";

it("serves the routes below the base, and nothing outside it", async () => {
  const { ask, close } = await openApp({ basePath: "/a.b/c~d" });
  for (const [path, status] of [
    ["/a.b/c~d/healthz", 200],
    ["/a.b/c~d/api/tasks?limit=1", 200],
    ["/a.b/c~d", 404],
    ["/a.b/c~d/", 404],
    ["/a.b/c~d/nothing", 404],
    ["/healthz", 404],
    ["/a.b/c~dhealthz", 404],
    ["/a.b/healthz", 404],
    ["/a.b/c~d/../healthz", 404],
    ["/a.b/c~d/a.b/c~d/healthz", 404],
  ] as const) {
    expect([path, (await ask("GET", path)).status]).toEqual([path, status]);
  }
  const { status, body } = await ask("GET", "/healthz");
  expect([status, body.code, body.detail]).toEqual([
    404,
    "UNKNOWN_ROUTE",
    "see /a.b/c~d/openapi.json for the routes",
  ]);
  const { body: document } = await ask("GET", "/a.b/c~d/openapi.json");
  expect(document.servers).toEqual([{ url: "/a.b/c~d" }]);
  expect(Object.keys(document.paths)).toContain("/healthz");
  await close();
});

it("refuses /readyz below the base while it drains, and still answers /healthz while it closes", async () => {
  const stores = await openStores("memory:");
  const app = createApp({ ...stores, auth: "none", version: "1", basePath: "/base" });
  const statusOf = async (path: string) =>
    (await app.fetch(new Request(`http://localhost/base${path}`))).status;
  expect([await statusOf("/readyz"), await statusOf("/healthz")]).toEqual([200, 200]);
  app.drain();
  expect([await statusOf("/readyz"), await statusOf("/healthz")]).toEqual([503, 200]);
  await app.close();
  expect([await statusOf("/readyz"), await statusOf("/healthz")]).toEqual([503, 200]);
  await stores.close();
});

it("is the whole origin by default", async () => {
  const { ask, close } = await openApp();
  expect((await ask("GET", "/healthz")).status).toBe(200);
  expect((await ask("GET", "/openapi.json")).body.servers).toEqual([{ url: "/" }]);
  await close();
});

it.each([
  "/",
  "leasehold",
  "/leasehold/",
  "//leasehold",
  "/a//b",
  "/a/../b",
  "/.",
  "/ä",
  "/a%62",
  "/a?b",
  "/a#b",
  "http://host/a",
  "/:a",
  "/*",
  " /a",
])("refuses %j", async (basePath) => {
  await expect(openApp({ basePath })).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path: "basePath",
    message: expect.stringMatching(/^basePath must be like \/leasehold: /),
  });
});

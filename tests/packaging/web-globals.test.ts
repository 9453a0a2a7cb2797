/**
 * The client where there are the globals of the web and nothing else, as in Deno, Bun and workers at
 * the edge: a bundle of it, in a realm of its own, against a live server.
 */
import { runInContext } from "node:vm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { listen } from "../../packages/leasehold-server/src/http/index.js";
import type { Client } from "../support/browser/browser-page.js";
import { bundle } from "../support/browser/bundle.js";
import { webRealm } from "../support/processes/web-realm.js";
import { openApp } from "../support/server/app.js";

const ends: (() => Promise<unknown>)[] = [];
let openClient: (url: string, holder: string) => Promise<Client>;
let url: string;
beforeAll(async () => {
  const { app, stores } = await openApp();
  ends.push(() => stores.close());
  const server = await listen({ app, port: 0 });
  ends.push(() => server.close());
  url = server.url;
  const page = new URL("../support/browser/browser-page.ts", import.meta.url);
  const { entry, scripts } = await bundle(page, { format: "iife" });
  const realm = webRealm();
  runInContext(scripts.get(entry) ?? "", realm);
  openClient = realm.openClient as typeof openClient;
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

it("leases and works on tasks", async () => {
  const [one, two] = await Promise.all([openClient(url, "one"), openClient(url, "two")]);
  const { token, alive } = await one.run("door");
  expect(alive).toBe(true);
  expect(await one.acquire("door")).toBeGreaterThan(token);
  expect(await two.tryRun("door")).toMatchObject({ ran: false, holder: "one" });
  const waiting = two.acquire("door");
  await one.release("door");
  expect(await waiting).toBeGreaterThan(token + 1);
  await two.release("door");
  const id = await one.enqueue(21);
  two.work();
  expect(await one.output(id)).toBe(42);
  await Promise.all([one.close(), two.close()]);
});

/** The client in a browser: bundled by Vite, in Debian's Chromium, against a live server. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect, type Leasehold, openStores } from "../../packages/leasehold/src/index.js";
import { createApp, nodeHandler } from "../../packages/leasehold-server/src/http/index.js";
// What it adds to the global object.
import type {} from "../support/browser/browser-page.js";
import { type Bundle, bundle } from "../support/browser/bundle.js";
import { describeChromium, launchChromium } from "../support/browser/chromium.js";

/**
 * As gzip, for all that a page can load of the client: leases, elections, shards, tasks and the checks of their arguments
 * are 58 kB. Three of them are the short ways of a first attempt and of a task, which allocate less, and what a wait logs.
 */
// Of this, `once` is 5,000, schedules are 16,000 with croner, and JSON Schemas 7,000 with their validator: scripts that a page
// loads when it calls them. Tokens of an issuer, which are asked for again before they end, are 1,000. Batches of
// requests that may wait for different times are 300. Descriptions of whatever was thrown, guards around
// loggers and listeners, retries of operator calls, checks of the parameters of URLs and the grammar of cron are 8,500. Limits of
// the time of tasks, and tasks that are put off, are 4,500.
const MOST_BYTES = 113_500;

describeChromium("the client in Chromium", exercise);

function exercise() {
  let made: Bundle;
  let url: string;
  let operator: Leasehold;
  let browser: BrowserContext;
  const complaints: string[] = [];
  const ends: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    made = await bundle(new URL("../support/browser/browser-page.ts", import.meta.url));
    const stores = await openStores("memory:browser");
    ends.push(() => stores.close());
    operator = await connect("memory:browser");
    ends.push(() => operator.close());
    const app = createApp({ ...stores, basePath: "/leasehold", auth: "ifAny", version: "test" });
    const server = serve(made, nodeHandler(app)).listen(0, "127.0.0.1");
    ends.push(
      () => new Promise((resolve) => server.close(resolve)),
      () => app.close(),
    );
    await new Promise((resolve) => server.once("listening", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const chromium = await launchChromium();
    ends.push(() => chromium.close());
    browser = chromium.context;
  });
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
  });

  async function openTab(holder: string): Promise<Page> {
    const tab = await browser.newPage();
    tab.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) complaints.push(message.text());
    });
    tab.on("pageerror", (error) => complaints.push(String(error)));
    await tab.goto(url);
    await tab.evaluate(
      async ([base = "", name = ""]) => {
        globalThis.client = await globalThis.openClient(base, name);
      },
      [`${url}/leasehold`, holder],
    );
    return tab;
  }

  it("is small", () => {
    const { bytes, gzipBytes } = made;
    console.info(`the bundle of the client: ${bytes} bytes, ${gzipBytes} as gzip`);
    for (const code of made.scripts.values()) expect(code).not.toMatch(/["'`]node:/);
    expect(gzipBytes).toBeLessThan(MOST_BYTES);
  });

  it("works under leases and on tasks, in two tabs", async () => {
    const one = await openTab("one");
    const two = await openTab("two");
    const ran = await one.evaluate(() => globalThis.client.run("report"));
    expect(ran).toEqual({ token: expect.any(Number), alive: true });

    const token = await one.evaluate(() => globalThis.client.acquire("door"));
    expect(await two.evaluate(() => globalThis.client.tryRun("door"))).toMatchObject({
      ran: false,
      holder: "one",
    });
    const waiting = two.evaluate(() => globalThis.client.acquire("door"));
    await one.evaluate(() => globalThis.client.release("door"));
    expect(await waiting).toBeGreaterThan(token);
    expect(await operator.get("door")).toMatchObject({ holder: "two", state: "live" });

    const lost = two.evaluate(() => globalThis.client.lost("door"));
    await operator.revoke("door", { free: "now" });
    expect(await lost).toBe("LEASE_LOST");
    expect(await one.evaluate(() => globalThis.client.tryRun("door"))).toMatchObject({ ran: true });

    await using tasksClient = await connect("memory:browser");
    const tasks = tasksClient.tasks;
    await two.evaluate(() => globalThis.client.work());
    const id = await one.evaluate(() => globalThis.client.enqueue(21));
    expect(await one.evaluate((id) => globalThis.client.output(id), id)).toBe(42);
    expect(await tasks.get(id)).toMatchObject({ attempts: [{ holder: "two" }] });

    for (const tab of [one, two]) await tab.evaluate(() => globalThis.client.close());
    expect(complaints).toEqual([expect.stringMatching(/^\[LEASEHOLD_W_LEASE_LOST\] lease lost/)]);
  });
}

const PAGE = (entry: string) => `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Leasehold</title>
<link rel="icon" href="data:,"><script type="module" src="/${entry}"></script></html>`;

/** The page, its scripts and the app, from one origin. */
function serve({ entry, scripts }: Bundle, leasehold: ReturnType<typeof nodeHandler>): Server {
  return createServer((incoming, outgoing) => {
    const path = incoming.url ?? "";
    const script = scripts.get(path.slice(1));
    if (path.startsWith("/leasehold/")) leasehold(incoming, outgoing);
    else if (path === "/") outgoing.setHeader("content-type", "text/html").end(PAGE(entry));
    else if (script) outgoing.setHeader("content-type", "text/javascript").end(script);
    else outgoing.writeHead(404).end();
  });
}

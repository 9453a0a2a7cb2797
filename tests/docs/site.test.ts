/** The site of the documentation, built and then read in a browser. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { APART, PARTS } from "../../docs/.vitepress/navigation.js";
import { type Browser, launchChromium } from "../support/chromium.js";
import { axe, overflows, PHONE } from "../support/console.js";
import { describeWherePossible, freePort } from "../support/postgres.js";
import { Child, endAll } from "../support/processes.js";

const DOCS = fileURLToPath(new URL("../../docs", import.meta.url));
const BUILD_MS = 600_000;
const WIDE = { width: 1400, height: 900 };

it("has a place in the navigation for each page, and a page for each place", async () => {
  const files = await readdir(DOCS, { recursive: true });
  const pages = files
    .filter((file) => file.endsWith(".md") && !/node_modules|\.vitepress/.test(file))
    .map((file) => file.replace(/\.md$/, ""))
    .filter((page) => page !== "index" && !APART.test(page));
  const places = PARTS.flatMap((part) => Object.keys(part.pages)).filter((at) => !APART.test(at));
  expect(places.toSorted()).toEqual(pages.toSorted());
  expect(new Set(places).size).toBe(places.length);
});

const without = existsSync(join(DOCS, "node_modules"))
  ? null
  : "no VitePress: npm ci --prefix docs";

describeWherePossible(without, "the site", () => {
  let browser: Browser;
  let url: string;
  const complaints: string[] = [];
  const strangers: string[] = [];

  beforeAll(async () => {
    const built = await new Child("npm", ["run", "--silent", "build"], { cwd: DOCS }).ended;
    expect(built, built.stderr).toMatchObject({ code: 0 });
    const port = await freePort();
    const preview = ["vitepress", "preview", "--port", String(port)];
    const server = new Child("npx", preview, { cwd: DOCS });
    await server.until(({ out }) => out.some((line) => line.includes("served at")));
    url = `http://localhost:${port}`;
    browser = await launchChromium();
    browser.context.on("request", (request) => {
      if (!request.url().startsWith(url)) strangers.push(request.url());
    });
  }, BUILD_MS);
  afterAll(async () => {
    await browser.close();
    await endAll();
  });

  async function open(path: string, viewport = WIDE, colorScheme: "light" | "dark" = "light") {
    const page = await browser.context.newPage();
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    page.on("pageerror", (error) => complaints.push(`${path}: ${error}`));
    page.on("console", (message) => {
      if (message.type() === "error") complaints.push(`${path}: ${message.text()}`);
    });
    await page.goto(url + path, { waitUntil: "networkidle" });
    return page;
  }

  it.each([
    ["how long should the ttl be", "/learn/choosing-a-ttl"],
    ["redlock", "/compat-redlock"],
    ["cron", "/cron"],
    ["fencing token", "/learn/fencing"],
  ])("finds %s", async (words, path) => {
    const page = await open("/start/");
    await page.keyboard.press("Control+k");
    await page.getByRole("searchbox").fill(words);
    const found = page.getByRole("option").first();
    await expect.poll(() => found.count(), { timeout: 30_000 }).toBe(1);
    const results = await page.locator("a.result").all();
    const links = await Promise.all(results.slice(0, 5).map((link) => link.getAttribute("href")));
    expect(links.map((link) => link?.replace(/#.*/, ""))).toContain(path);
    await page.close();
  });

  const LOOKED_AT = [
    "/",
    "/start/first-lease",
    "/learn/fencing",
    "/learn/choosing-a-ttl",
    "/choose/",
    "/guides/web-framework",
    "/guides/migrating",
    "/reference/api/leasehold/functions/connect",
  ];
  describe.each(["light", "dark"] as const)("in %s colours", (theme) => {
    it.each(LOOKED_AT)("%s has no findings of axe", async (path) => {
      const page = await open(path, WIDE, theme);
      expect(await axe(page)).toEqual([]);
      await page.close();
    });
  });

  it.each(LOOKED_AT)("%s fits a phone", async (path) => {
    const page = await open(path, PHONE);
    expect(await overflows(page)).toBe(false);
    await page.close();
  });

  it.each([
    // With the default trust and jitter, 0.99 - 1.1 / 3 of the TTL are left when a pause begins at the worst moment.
    ["Longest outage of the store to survive", "59", "ttlMs: 98000"],
    ["Longest pause of the process", "59", "ttlMs: 98000"],
    // It counts as 0, as those that make no sense.
    ["Longest outage of the store to survive", "", "ttlMs: 12000"],
    ["Longest outage of the store to survive", "-3", "ttlMs: 12000"],
    ["Leases held at the same time", "", "renewed 0.0 times"],
  ])("computes a TTL: %s is %j", async (label, value, shown) => {
    const page = await open("/learn/choosing-a-ttl");
    await page.getByLabel(label).fill(value);
    await expect.poll(() => textOf(page)).toContain(shown);
    await page.close();
  });

  it("shows the simulator in the page on fencing", async () => {
    const page = await open("/learn/fencing");
    const simulator = page.frameLocator("iframe");
    await page.locator("iframe").scrollIntoViewIfNeeded();
    await simulator.getByRole("button", { name: "GC pause and fence" }).waitFor();
    await page.close();
  });

  it("lists its pages for language models", async () => {
    const text = await readFile(join(DOCS, ".vitepress/dist/llms.txt"), "utf8");
    for (const page of Object.keys(PARTS[1]?.pages ?? {})) expect(text).toContain(`/${page}.md`);
  });

  it("complains of nothing, and asks no other server", () => {
    expect(complaints).toEqual([]);
    expect(strangers).toEqual([]);
  });
});

const textOf = (page: Page) => page.locator("output").textContent();

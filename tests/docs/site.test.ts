/** The site of the documentation, built and then read in a browser. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { APART, PARTS } from "../../docs/.vitepress/navigation.js";
import { type Browser, launchChromium } from "../support/browser/chromium.js";
import { axe, overflows, PHONE } from "../support/browser/console.js";
import { deadLinksOf } from "../support/documents/site-links.js";
import { freePort } from "../support/engines/free-port.js";
import { describeWherePossible } from "../support/engines/postgres.js";
import { Child, endAll } from "../support/processes/processes.js";

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
    // Vue names it when it takes the page over, which on a noisy machine is after the network is idle.
    await page
      .locator(".VPSwitchAppearance[title]:not([title=''])")
      .first()
      .waitFor({ state: "attached" });
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

  /** One of each kind of the reference, which typedoc makes, and one decision: the others look alike. */
  const OF_A_KIND = [
    "reference/api/leasehold/index",
    "reference/api/leasehold/functions/connect",
    "reference/api/leasehold/classes/LeaseLostError",
    "reference/api/leasehold/interfaces/Leasehold",
    "reference/api/leasehold/interfaces/ConnectOptions",
    "reference/api/leasehold/type-aliases/Source",
    "reference/api/leasehold/fence/variables/FENCE_TABLE",
    "decisions/README",
    "decisions/0001-skip-locked-rows",
  ];
  const pages = ["index", ...PARTS.flatMap((part) => Object.keys(part.pages)), ...OF_A_KIND];
  const paths = [...new Set(pages)].map((page) => `/${page.replace(/(^|\/)index$/, "$1")}`);
  // Side by side: each page waits for its network more than it computes.
  it.concurrent.each(paths)(
    "%s fits a phone, and has no findings of axe in either theme",
    async (path) => {
      const page = await open(path, PHONE);
      expect(await overflows(page)).toBe(false);
      await page.setViewportSize(WIDE);
      expect(await axe(page), "light").toEqual([]);
      await page.emulateMedia({ colorScheme: "dark" });
      await page.locator("html.dark").waitFor({ state: "attached" });
      expect(await axe(page), "dark").toEqual([]);
      await page.close();
    },
  );

  it.each([
    ["beside the page", WIDE],
    ["in the menu of a phone", PHONE],
  ])("shows the current page's entry of the sidebar, %s", async (_, viewport) => {
    const page = await open("/guides/schedules-and-keys", viewport);
    const openMenu = () => page.getByRole("button", { name: "Menu", exact: true }).click();
    const entry = page.locator(".VPSidebarItem.is-link.is-active > .item");
    if (viewport === PHONE) await openMenu();
    await expect.poll(() => isInView(entry)).toBe(true);
    await page.locator(".VPSidebarItem").getByText("Bugs found", { exact: true }).click();
    await page.waitForURL("**/bugs-found");
    if (viewport === PHONE) await openMenu();
    await expect.poll(() => isInView(entry)).toBe(true);
    expect(await page.evaluate("window.scrollY")).toBe(0);
    await page.close();
  });

  it("has no link that leads nowhere: to no page, no anchor, no file of the repository", async () => {
    expect(await deadLinksOf(join(DOCS, ".vitepress/dist"))).toEqual([]);
  });

  it.each([
    ["/guides/leader", "pnpm add leasehold pg"],
    ["/start/", "pnpm create leasehold my-app"],
  ])("%s shows what to install with other package managers", async (path, command) => {
    const page = await open(path);
    await page.getByText("pnpm", { exact: true }).first().click();
    await page.getByText(command).waitFor();
    await closeForgetting(page);
  });

  it("shows it within the tab of an engine, too", async () => {
    const page = await open("/start/first-lease");
    await page.getByText("Redis", { exact: true }).first().click();
    await page.getByText("npm install leasehold ioredis").waitFor();
    await page.getByText("bun", { exact: true }).and(page.locator(":visible")).first().click();
    await page.getByText("bun add leasehold ioredis").waitFor();
    expect(await page.getByText("bun add leasehold pg").isVisible()).toBe(false);
    await closeForgetting(page);
  });

  it("follows a tab in all groups of the page, by keyboard too, and remembers it", async () => {
    const page = await open("/guides/web-framework");
    const chosen = () =>
      page.locator(".tabs input:checked + label", { hasText: /^(Express|Hono|NestJS)$/ });
    await page.locator("label", { hasText: "Hono" }).last().click();
    expect(new Set(await chosen().allTextContents())).toEqual(new Set(["Hono"]));
    expect(await chosen().count()).toBeGreaterThan(2);
    const last = page.locator(".vp-code-group > .tabs > input:checked").last();
    await last.focus();
    await page.keyboard.press("ArrowRight");
    expect(new Set(await chosen().allTextContents())).toEqual(new Set([]));
    await page.keyboard.press("ArrowLeft");
    expect(new Set(await chosen().allTextContents())).toEqual(new Set(["Hono"]));
    await page.reload();
    await expect
      .poll(async () => new Set(await chosen().allTextContents()))
      .toEqual(new Set(["Hono"]));
    await page.locator(".blocks > .active", { hasText: "new Hono()" }).waitFor();
    await closeForgetting(page);
  });

  it.each([
    // (59 + 2 × 1 + 0.01) × 1.61
    ["Longest outage of the store to survive", "59", "ttlMs: 99000"],
    ["Longest pause of the process", "59", "ttlMs: 99000"],
    ["Longest outage of the store to survive", "", "enter a number from 0"],
    ["Longest outage of the store to survive", "-3", "enter a number from 0"],
    ["Leases held at the same time", "", "enter a number from 1"],
    ["Leases held at the same time", "1000000000", "to 10,000,000"],
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

  it("opens the simulator from the bar at the top", async () => {
    const page = await open("/start/");
    await page.getByRole("navigation").getByRole("link", { name: "Simulator" }).first().click();
    await page.getByRole("heading", { level: 1, name: "Simulator" }).waitFor();
    await page.getByRole("region", { name: "Stage" }).waitFor();
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

/** The browser keeps the tabs that were chosen; the next test begins as a new reader. */
async function closeForgetting(page: Page): Promise<void> {
  await page.evaluate("localStorage.clear()");
  await page.close();
}

/** Whether it is within the window, below the bar at the top. */
async function isInView(entry: Locator): Promise<boolean> {
  const box = await entry.boundingBox();
  const size = entry.page().viewportSize();
  if (box === null || size === null) return false;
  return box.x >= 0 && box.y >= 64 && box.y + box.height <= size.height;
}

const textOf = (page: Page) => page.locator("output").textContent();

/** The frame of every page: navigation, sign-in, shortcuts, themes, and the size of the first load. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeChromium } from "../support/browser/chromium.js";
import {
  axe,
  type Console,
  loadedBy,
  newKey,
  openConsole,
  overflows,
  PHONE,
} from "../support/browser/console.js";

const PAGES = ["Overview", "Leases", "Tasks", "Workers", "Once", "Elections", "Events", "Audit"];
const MOST_FIRST_LOAD_BYTES = 220_000;

describeChromium("the console in Chromium", () => {
  let console: Console;
  beforeAll(async () => {
    console = await openConsole();
  });
  afterAll(() => console.close());

  it("has every page", async () => {
    const page = await console.open("/");
    for (const name of PAGES) {
      await page.getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.getByText("Loading").waitFor({ state: "hidden" });
    }
    expect(console.complaints).toEqual([]);
    await page.close();
  });

  it("works on a phone, in the dark theme", async () => {
    const page = await console.open("/", { viewport: PHONE, theme: "dark" });
    for (const name of PAGES) {
      await page.getByRole("button", { name: "Menu" }).click();
      await page.getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { level: 1 }).waitFor();
      expect(await overflows(page), name).toBe(false);
      expect(await axe(page), name).toEqual([]);
    }
    expect(console.complaints).toEqual([]);
    await page.close();
  });

  it("supports shortcuts: g and a letter, the palette, the search", async () => {
    const page = await console.open("/");
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("l");
    await page.getByRole("heading", { level: 1, name: "Leases" }).waitFor();
    await page.keyboard.press("/");
    await expect.poll(() => page.evaluate("document.activeElement.id")).toBe("page-search");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("audi");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/audit");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor({ state: "hidden" });
    await page.close();
  });

  it("keeps the chosen theme", async () => {
    const page = await console.open("/");
    const theme = () => page.evaluate("document.documentElement.dataset.theme");
    expect(await theme()).toBe("light");
    await page.getByLabel("Theme").selectOption("dark");
    expect(await theme()).toBe("dark");
    await page.reload();
    await expect.poll(theme).toBe("dark");
    await page.getByLabel("Theme").selectOption("system");
    await page.close();
  });

  it("loads little for the first page, as gzip", async () => {
    const page = await console.open("/");
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    const { sizes, bytes } = await loadedBy(page);
    globalThis.console.info(`the first load: ${bytes} bytes as gzip\n${sizes.join("\n")}`);
    expect(sizes.length).toBeGreaterThan(2);
    expect(bytes).toBeLessThan(MOST_FIRST_LOAD_BYTES);
    await page.close();
  });
});

describeChromium("signing in", () => {
  it("requires a key, refuses a wrong one, and shows what the role may see", async () => {
    const console = await openConsole({ auth: "keys" });
    try {
      const page = await console.open("/leases");
      await page.getByLabel("API key").fill("lh_0123456789ab_0123456789abcdef0123456789abcdef");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("alert").waitFor();
      expect(await axe(page)).toEqual([]);
      await page.getByLabel("API key").fill(await newKey(console.stores, "viewer"));
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { level: 1, name: "Leases" }).waitFor();
      await page.getByText("viewer", { exact: true }).waitFor();
      // The key is kept for this tab only: not in its URL or in storage that outlives it.
      expect(page.url()).not.toContain("lh_");
      expect(await page.evaluate("JSON.stringify({ ...localStorage })")).not.toContain("lh_");
      await page.reload();
      await page.getByRole("heading", { level: 1, name: "Leases" }).waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("API key").waitFor();
    } finally {
      await console.close();
    }
  });
});

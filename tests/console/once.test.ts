/** The console's page of `once`, on a server's own stores. */
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/index.js";
import { describeChromium } from "../support/browser/chromium.js";
import {
  axe,
  type Console,
  newKey,
  openConsole,
  overflows,
  PHONE,
} from "../support/browser/console.js";
import { button, openedPages, waitForCount } from "../support/browser/pages.js";

describeChromium("the console's page of once", () => {
  let console: Console;
  let leasehold: Leasehold;
  beforeAll(async () => {
    console = await openConsole();
    leasehold = await connect(http({ url: console.url }), { holder: "web-1" });
  });
  afterAll(async () => {
    await leasehold.close();
    await console.close();
  });
  const open = openedPages(() => console);
  const rows = (page: Page) => page.getByRole("list", { name: "Keys" }).getByRole("listitem");
  const row = (page: Page, key: string) => rows(page).filter({ hasText: key });
  const inside = (dialog: Locator, name: string) =>
    dialog.getByRole("button", { name, exact: true });
  const fail = (key: string, options = {}) =>
    leasehold
      .once(key, options, () => Promise.reject(new Error("the bank is closed")))
      .catch(() => {});

  it("is empty at first, and shows keys as their work ends", async () => {
    const page = await open("/once");
    await page.getByText("No keys yet").waitFor();
    await leasehold.once("bill:2026-10", () => ({ sent: 12 }));
    await row(page, "bill:2026-10").getByText("done").waitFor();
    await fail("bill:2026-11", { retryDelayMs: 3_600_000 });
    await fail("mail:2026-11", { maxAttempts: 1 });
    await row(page, "bill:2026-11").getByText("failing").waitFor();
    await row(page, "mail:2026-11").getByText("the bank is closed").waitFor();
    await page.getByRole("button", { name: "Details of bill:2026-10" }).click();
    await page.getByRole("region", { name: "value of bill:2026-10" }).getByText("12").waitFor();
  });

  it("filters by prefix and state; the URL keeps the filters", async () => {
    const page = await open("/once");
    await waitForCount(rows(page), 3);
    await page.getByRole("searchbox", { name: "Prefix of the keys" }).fill("bill:");
    await waitForCount(rows(page), 2);
    await page.getByLabel("State", { exact: true }).selectOption("failing");
    await waitForCount(rows(page), 1);
    const kept = Object.fromEntries(new URL(page.url()).searchParams);
    expect(kept).toEqual({ prefix: "bill:", state: "failing" });
    await page.reload();
    await waitForCount(rows(page), 1);
    await page.getByLabel("State", { exact: true }).selectOption("failed");
    await page.getByText("No keys match the filters").waitFor();
  });

  it("retries and deletes keys with a reason, which the audit has", async () => {
    const page = await open("/once?prefix=mail:");
    await page.getByRole("button", { name: "Details of mail:2026-11" }).click();
    await button(page, "Retry").click();
    const dialog = page.getByRole("dialog", { name: "Retry mail:2026-11?" });
    expect(await inside(dialog, "Retry").isDisabled()).toBe(true);
    await dialog.getByLabel("Reason").fill("the bank is open");
    await inside(dialog, "Retry").click();
    await page.getByText("No keys match the filters").waitFor();
    expect((await leasehold.once("mail:2026-11", () => "sent")).ran).toBe(true);
    await row(page, "mail:2026-11").getByText("done").waitFor();
    await page.getByRole("button", { name: "Details of mail:2026-11" }).click();
    expect(await button(page, "Retry").count()).toBe(0);
    await button(page, "Delete").click();
    const asking = page.getByRole("dialog", { name: "Delete mail:2026-11?" });
    await asking.getByLabel("Reason").fill("it was wrong");
    await inside(asking, "Delete").click();
    await page.getByText("No keys match the filters").waitFor();
    const audit = await open("/audit?target=mail%3A2026-11");
    await audit.getByText("“it was wrong”").first().waitFor();
  });

  it("loads more keys on scroll", async () => {
    for (let n = 0; n < 60; n += 1) {
      await leasehold.once(`many:${String(n).padStart(2, "0")}`, () => n);
    }
    const page = await open("/once?prefix=many:");
    await waitForCount(rows(page), 50);
    await rows(page).last().scrollIntoViewIfNeeded();
    await waitForCount(rows(page), 60);
  });

  it("fits a phone, is accessible, and complains of nothing", async () => {
    for (const theme of ["light", "dark"] as const) {
      for (const viewport of [{ width: 1400, height: 900 }, PHONE]) {
        const page = await open("/once", { viewport, theme });
        await page.getByRole("button", { name: "Details of bill:2026-11" }).click();
        await page.getByText("next attempt in").waitFor();
        expect(await axe(page)).toEqual([]);
        expect(await overflows(page)).toBe(false);
        // Each page follows two streams, and a browser has six connections to a server.
        await page.close();
      }
    }
    expect(console.complaints).toEqual([]);
  });

  it("lets a viewer read, and change nothing", async () => {
    const key = await newKey(console.stores, "viewer");
    const page = await open("/once");
    await page.getByLabel("API key").fill(key);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Details of bill:2026-11" }).click();
    await page.getByText("next attempt in").waitFor();
    expect(await button(page, "Delete").count()).toBe(0);
  });
});

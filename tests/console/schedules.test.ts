/** The console's page of schedules, on a server's own stores. */
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
import { button, openedPages } from "../support/browser/pages.js";

describeChromium("the console's page of schedules", () => {
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
  const row = (page: Page, name: string) =>
    page.getByRole("list", { name: "Schedules" }).getByRole("listitem").filter({ hasText: name });
  const inside = (dialog: Locator, name: string) =>
    dialog.getByRole("button", { name, exact: true });
  const details = (page: Page, name: string) =>
    page.getByRole("button", { name: `Details of ${name}` });
  const act = async (page: Page, label: string, verb: string, reason: string) => {
    await button(page, label).click();
    const dialog = page.getByRole("dialog", { name: `${verb} nightly?` });
    expect(await inside(dialog, verb).isDisabled()).toBe(true);
    await dialog.getByLabel("Reason").fill(reason);
    await inside(dialog, verb).click();
    await dialog.waitFor({ state: "detached" });
  };

  it("is empty at first, and shows what programs declare", async () => {
    const page = await open("/schedules");
    await page.getByText("No schedules yet").waitFor();
    const times = { cron: "0 2 * * *", timeZone: "Europe/Zurich" };
    await leasehold.tasks.schedule("nightly", { ...times, kind: "report", data: { of: "sales" } });
    await page.reload();
    await row(page, "nightly").getByText("0 2 * * * Europe/Zurich").waitFor();
    await details(page, "nightly").click();
    const next = page.getByRole("list", { name: "Next fire times of nightly" });
    expect(await next.getByRole("listitem").count()).toBe(5);
    await page.getByRole("region", { name: "data of nightly" }).getByText("sales").waitFor();
  });

  it("pauses, runs and resumes with a reason, which the audit has", async () => {
    const page = await open("/schedules");
    await details(page, "nightly").click();
    await act(page, "Pause", "Pause", "the warehouse moves");
    await row(page, "nightly").getByText("paused", { exact: true }).waitFor();
    await page.getByText("the warehouse moves").first().waitFor();
    await act(page, "Run now", "Run", "last night failed");
    await row(page, "nightly").getByText("pending").waitFor();
    await act(page, "Resume", "Resume", "it has moved");
    await row(page, "nightly").getByText("paused", { exact: true }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: "last task" }).click();
    await page.getByText("report").first().waitFor();
    const audit = await open("/audit?target=nightly");
    await audit.getByText("“last night failed”").first().waitFor();
  });

  it("fits a phone, is accessible, and complains of nothing", async () => {
    for (const theme of ["light", "dark"] as const) {
      for (const viewport of [{ width: 1400, height: 900 }, PHONE]) {
        const page = await open("/schedules", { viewport, theme });
        await details(page, "nightly").click();
        await page.getByText("Kind report").waitFor();
        expect(await axe(page)).toEqual([]);
        expect(await overflows(page)).toBe(false);
        await page.close();
      }
    }
    expect(console.complaints).toEqual([]);
  });

  it("removes a schedule", async () => {
    const page = await open("/schedules");
    await details(page, "nightly").click();
    await act(page, "Remove", "Remove", "replaced by hourly");
    await page.getByText("No schedules yet").waitFor();
  });

  it("lets a viewer read, and change nothing", async () => {
    await leasehold.tasks.schedule("hourly", { cron: "0 * * * *", kind: "report", data: null });
    const key = await newKey(console.stores, "viewer");
    const page = await open("/schedules");
    await page.getByLabel("API key").fill(key);
    await page.keyboard.press("Enter");
    await details(page, "hourly").click();
    await page.getByText("Kind report").waitFor();
    expect(await button(page, "Pause").count()).toBe(0);
  });
});

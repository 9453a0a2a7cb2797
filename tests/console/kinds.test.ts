/** The console's page of kinds, on a server's own stores. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect, defineTask, type Leasehold } from "../../packages/leasehold/src/index.js";
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

const schema = { type: "object", properties: { cents: { type: "integer" } } };

describeChromium("the console's page of kinds", () => {
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
  const opened = async (page: Page, name: string) => {
    await button(page, `Schema of ${name}`).click();
    return page.getByRole("region", { name: `schema of ${name}` });
  };

  it("is empty at first, and shows the schemas and versions that programs publish", async () => {
    const page = await open("/kinds");
    await page.getByText("No published kinds yet").waitFor();
    for (const version of [1, 2]) {
      const invoice = defineTask("invoice", { schema, publish: true, version });
      await leasehold.tasks.enqueue(invoice, { cents: version });
    }
    await page.reload();
    const rows = page.getByRole("list", { name: "Kinds" }).getByRole("listitem");
    await rows.nth(1).getByText("web-1").waitFor();
    expect(await rows.count()).toBe(2);
    await (await opened(page, "invoice 2")).getByText("integer").waitFor();
    await page.getByRole("link", { name: "tasks of this kind" }).click();
    await page
      .getByRole("link", { name: /invoice/ })
      .first()
      .click();
    await page.getByText("version 2").first().waitFor();
  });

  it("fits a phone, is accessible, and complains of nothing", async () => {
    for (const theme of ["light", "dark"] as const) {
      for (const viewport of [{ width: 1400, height: 900 }, PHONE]) {
        const page = await open("/kinds", { viewport, theme });
        await (await opened(page, "invoice 1")).waitFor();
        expect(await axe(page)).toEqual([]);
        expect(await overflows(page)).toBe(false);
        await page.close();
      }
    }
    expect(console.complaints).toEqual([]);
  });

  it("withdraws a version with a reason, which the audit has", async () => {
    const page = await open("/kinds");
    await opened(page, "invoice 1");
    await button(page, "Withdraw").click();
    const dialog = page.getByRole("dialog", { name: "Withdraw invoice 1?" });
    await dialog.getByLabel("Reason").fill("replaced by 2");
    await dialog.getByRole("button", { name: "Withdraw", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await button(page, "Schema of invoice 1").waitFor({ state: "detached" });
    const audit = await open("/audit?target=invoice");
    await audit.getByText("“replaced by 2”").first().waitFor();
  });

  it("lets a viewer read, and change nothing", async () => {
    const key = await newKey(console.stores, "viewer");
    const page = await open("/kinds");
    await page.getByLabel("API key").fill(key);
    await page.keyboard.press("Enter");
    await (await opened(page, "invoice 2")).waitFor();
    expect(await button(page, "Withdraw").count()).toBe(0);
  });
});

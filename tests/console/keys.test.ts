/** The console's page of keys. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeChromium } from "../support/browser/chromium.js";
import {
  axe,
  type Console,
  newKey,
  openConsole,
  overflows,
  PHONE,
} from "../support/browser/console.js";
import { forgiveComplaints, openedPages, waitForCount } from "../support/browser/pages.js";

describeChromium("the console's keys", () => {
  let console: Console;
  beforeAll(async () => {
    console = await openConsole({ auth: "keys" });
  });
  afterAll(() => console.close());
  const opened = openedPages(() => console);
  /** The page of this caller, in a tab of its own. */
  const open = async (key: string) => {
    const page = await opened("/keys");
    await page.getByLabel("API key").fill(key);
    await page.keyboard.press("Enter");
    return page;
  };

  it("shows the keys to admins, and when each was last used", async () => {
    const operator = await newKey(console.stores, "operator");
    const admin = await newKey(console.stores, "admin");
    const page = await open(admin);
    const rows = page.getByRole("list", { name: "Keys" }).getByRole("listitem");
    await waitForCount(rows, 2);
    const [, id = ""] = admin.split("_");
    const own = rows.filter({ hasText: id });
    await own.getByText("valid").waitFor();
    await console.stores.control?.keys.noteUsed([id]);
    await page.reload();
    await own
      .getByText(/ago|now/)
      .first()
      .waitFor();
    await newKey(console.stores, "viewer");
    await page.reload();
    await rows.filter({ hasText: "viewer" }).getByText("never").first().waitFor();
    for (const viewport of [{ width: 1400, height: 900 }, PHONE]) {
      await page.setViewportSize(viewport);
      expect(await axe(page)).toEqual([]);
      expect(await overflows(page)).toBe(false);
    }
    const other = await open(operator);
    await other.getByText("Only admins can list the keys").waitFor();
    forgiveComplaints(console, 0, "401");
  });
});

/** Leases that need a second person in the console, and its page of keys. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { describeChromium } from "../support/browser/chromium.js";
import {
  axe,
  type Console,
  newKey,
  openConsole,
  overflows,
  PHONE,
} from "../support/browser/console.js";
import { button, forgiveComplaints, openedPages, waitForCount } from "../support/browser/pages.js";

const RESOURCE = { namespace: "default", resource: "pay/eu" };
const PATH = `/leases/${encodeURIComponent(RESOURCE.resource)}`;

describeChromium("a lease that needs a second person", () => {
  let console: Console;
  let ann: string;
  let bob: string;
  let before = 0;
  beforeAll(async () => {
    const twoPersonRevoke = { prefixes: ["pay/"] };
    console = await openConsole({ auth: "keys", twoPersonRevoke });
    ann = await newKey(console.stores, "operator");
    bob = await newKey(console.stores, "admin");
    const grant = { leaseId: "7".repeat(48), holder: "web-1", ttlMs: 600_000 };
    await console.stores.leases.acquire([{ ...RESOURCE, ...grant }]);
    await console.stores.leases.acquire([{ ...RESOURCE, ...grant, resource: "stock/eu" }]);
  });
  afterAll(() => console.close());
  beforeEach(() => {
    before = console.complaints.length;
  });
  const opened = openedPages(() => console);
  /** A page of this caller, in a tab of its own. */
  const open = async (path: string, key: string, options?: Parameters<typeof opened>[1]) => {
    const page = await opened(path, options);
    await page.getByLabel("API key").fill(key);
    await page.keyboard.press("Enter");
    return page;
  };
  const waiting = (page: Page) =>
    page.getByRole("list", { name: "Revocations that need a second person" }).getByRole("listitem");
  const stateOf = async () => (await console.stores.leases.get([RESOURCE]))[0]?.state;

  it("asks for a second person, who confirms what the first has requested", async () => {
    const page = await open(PATH, ann);
    await button(page, "Revoke…").click();
    const dialog = page.getByRole("dialog", { name: "Revoke pay/eu?" });
    await dialog.getByText("This lease needs a second person").waitFor();
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole("textbox", { name: "Reason" }).fill("it hangs");
    await dialog.getByRole("button", { name: "Request revocation" }).click();
    await dialog.waitFor({ state: "hidden" });
    await waiting(page).getByText("Your request: another person must confirm it").waitFor();
    expect(await page.getByRole("button", { name: /^Confirm/ }).count()).toBe(0);
    expect(await stateOf()).toBe("live");

    const list = await open("/leases", bob);
    await waiting(list).getByText("“it hangs”").waitFor();
    await button(list, "Confirm pay/eu…").click();
    const confirming = list.getByRole("dialog", { name: "Confirm the revocation of pay/eu?" });
    await confirming.getByText("has requested to end the lease of web-1, token 1.").waitFor();
    expect(await axe(list)).toEqual([]);
    await confirming.getByLabel("Reason").fill("I see it hang");
    await confirming.getByRole("button", { name: "Confirm", exact: true }).click();
    await confirming.waitFor({ state: "hidden" });
    await waitForCount(waiting(list), 0);
    expect(await stateOf()).toBe("revoked");
    await page.getByText(/^Revoked from web-1, free in/).waitFor();
    await waitForCount(waiting(page), 0);
    forgiveComplaints(console, before, "401");
  });

  it("is none below other prefixes", async () => {
    const page = await open("/leases/stock%2Feu", ann);
    await button(page, "Revoke…").click();
    const dialog = page.getByRole("dialog", { name: "Revoke stock/eu?" });
    await dialog.getByRole("button", { name: "Revoke", exact: true }).waitFor();
    expect(await dialog.getByText("second person").count()).toBe(0);
    forgiveComplaints(console, before, "401");
  });

  it("shows the keys to admins, and when each was last used", async () => {
    const page = await open("/keys", bob);
    const rows = page.getByRole("list", { name: "Keys" }).getByRole("listitem");
    await waitForCount(rows, 2);
    const [, id = ""] = bob.split("_");
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
    const other = await open("/keys", ann);
    await other.getByText("Only admins can list the keys").waitFor();
    forgiveComplaints(console, before, "401");
  });
});

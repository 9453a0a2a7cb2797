/** The console's list of leases, in a browser, on real leases. */
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { newLeaseId, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { describeChromium } from "../support/browser/chromium.js";
import { axe, type Console, openConsole, overflows, PHONE } from "../support/browser/console.js";
import { leaseCalls } from "../support/server/lease-calls.js";

const IN_PAGE = readFileSync(new URL("../support/browser/page-watch.js", import.meta.url), "utf8");
const MANY = 10_000;
const AT_ONCE = 1_000;
/** The rows in view, some beyond them, and the head. */
const MOST_ROWS = 60;

const row = (page: Page, name: string | RegExp) => page.getByRole("row").filter({ hasText: name });
const names = (page: Page) => page.getByRole("row").getByRole("link").allTextContents();

describeChromium("the console's leases", () => {
  let shown: Console;
  let calls: ReturnType<typeof leaseCalls>;

  beforeAll(async () => {
    shown = await openConsole();
    calls = leaseCalls(shown.url);
  });
  afterEach(() => shown.closePages());
  afterAll(async () => {
    await shown.close();
    expect(shown.complaints).toEqual([]);
  });

  it("is empty at first, and shows the first lease live", async () => {
    const page = await shown.open("/leases");
    await page.getByText("No leases yet").waitFor();
    await calls.take("billing/nightly", "worker-1");
    await row(page, "billing/nightly").getByText("worker-1").waitFor();
  });

  describe("with some", () => {
    beforeAll(async () => {
      const lease = await calls.take("orders/1", "ann");
      for (let renewals = 0; renewals < 3; renewals += 1) await lease.renew();
      await calls.take("orders/1", "bob", { queueMs: 60_000 });
      await calls.take("orders/1", "cid", { queueMs: 60_000 });
      await (await calls.take("orders/2", "bob")).release();
      await calls.take("orders/3", "bob");
      await calls.revoke("orders/3", "tested");
      await calls.take("orders/with/slashes?&# %41", "ann");
    });

    it("shows holder, token, renewals and waiters", async () => {
      const page = await shown.open("/leases?q=orders/");
      const cells = row(page, "orders/1").getByRole("cell");
      await expect
        .poll(() => cells.allTextContents())
        .toEqual(["orders/1", "live", "ann", "1", expect.stringMatching(/min/), "3", "2"]);
      expect(await row(page, "orders/2").getByRole("cell").nth(1).textContent()).toBe("released");
      expect(await row(page, "orders/3").getByRole("cell").nth(1).textContent()).toBe("revoked");
    });

    it("searches by filters, and keeps them in the URL", async () => {
      const page = await shown.open("/leases");
      await row(page, "billing/nightly").waitFor();
      await page.keyboard.press("/");
      await page.keyboard.type("orders/ holder:bob");
      await expect.poll(() => names(page)).toEqual(["orders/2", "orders/3"]);
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "revoked", exact: true }).click();
      await expect.poll(() => names(page)).toEqual(["orders/3"]);
      expect(new URL(page.url()).searchParams.get("q")).toBe("orders/ holder:bob state:revoked");

      await page.reload();
      await expect.poll(() => names(page)).toEqual(["orders/3"]);
      expect(await page.getByRole("searchbox").inputValue()).toBe(
        "orders/ holder:bob state:revoked",
      );
      await page.getByRole("searchbox").fill("state:asleep");
      await page.getByRole("alert").filter({ hasText: "state: must be one of" }).waitFor();
      await page.getByRole("searchbox").fill("no/such/prefix");
      await page.getByRole("button", { name: "Show all" }).click();
      await row(page, "billing/nightly").waitFor();
    });

    it("supports the keyboard, and opens a name with any characters", async () => {
      const page = await shown.open("/leases?q=orders/");
      await row(page, "orders/with").waitFor();
      for (const key of ["j", "j", "k", "j", "j", "j", "j"]) await page.keyboard.press(key);
      const focused = () => page.evaluate("document.activeElement.textContent");
      await expect.poll(focused).toBe("orders/with/slashes?&# %41");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "orders/with/slashes?&# %41" }).waitFor();
      await page.reload();
      await page.getByRole("heading", { name: "orders/with/slashes?&# %41" }).waitFor();
      await page.goBack();
      await row(page, "orders/with").waitFor();
      expect(new URL(page.url()).searchParams.get("q")).toBe("orders/");
    });

    it.each(["light", "dark"] as const)("has no accessibility findings, %s", async (theme) => {
      const page = await shown.open("/leases", { theme });
      await row(page, "orders/1").waitFor();
      expect(await axe(page)).toEqual([]);
      await page.setViewportSize(PHONE);
      await row(page, "orders/1").waitFor();
      expect(await axe(page)).toEqual([]);
      expect(await overflows(page)).toBe(false);
    });

    it("shows an error of the server, and retries", async () => {
      const page = await shown.open("/leases");
      await row(page, "orders/1").waitFor();
      const before = shown.complaints.length;
      await page.route("**/v1/leases?*", (route) => route.fulfill({ status: 503, body: "{}" }));
      await page.getByRole("searchbox").fill("orders/");
      await page.getByRole("alert").getByRole("button", { name: "Try again" }).waitFor();
      await page.unroute("**/v1/leases?*");
      await page.getByRole("button", { name: "Try again" }).click();
      await row(page, "orders/1").waitFor();
      // The browser logged errors only for those responses.
      const own = shown.complaints.splice(before);
      for (const complaint of own) expect(complaint).toContain("503");
    });
  });

  it("shows a change because of a notification, not of a poll", async () => {
    const page = await shown.open("/leases?q=watched/");
    await page.getByText("No matching leases").waitFor();
    await page.evaluate(IN_PAGE);
    await page.evaluate("watchFor('watched/now')");
    await calls.take("watched/now", "ann");
    await row(page, "watched/now").waitFor();
    const noted = await page.evaluate<{ what: string; atMs: number }[]>("watched");
    expect(noted.map(({ what }) => what)).toEqual(["event", "answer", "shown"]);
    const [event, , seen] = noted;
    console.info(`a change was shown ${(seen?.atMs ?? 0) - (event?.atMs ?? 0)} ms after its event`);
  });

  it("closes its streams while the page is hidden, and resumes them", async () => {
    const page = await shown.open("/leases?q=later/");
    await page.getByText("No matching leases").waitFor();
    const look = (hidden: boolean) =>
      page.evaluate(`
        Object.defineProperty(document, "hidden", { value: ${hidden}, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));`);
    const isStream = (request: { url(): string }) => request.url().includes("/v1/activity");
    const given = page.waitForEvent("requestfailed", isStream);
    await look(true);
    await given;
    const anew = page.waitForRequest(isStream);
    await calls.take("later/1", "ann");
    await look(false);
    expect((await anew).headers()["last-event-id"]).toMatch(/\d/);
    await row(page, "later/1").waitFor();
  });

  it(`scrolls through ${MANY} leases`, async () => {
    await fill("many/", MANY);
    const page = await shown.open("/leases?q=many/");
    await row(page, "many/00000").waitFor();
    await page.evaluate(IN_PAGE);
    const most = await page.evaluate<number>(`scrollDownTo('a[data-row="${MANY - 1}"]')`);
    expect(most).toBeLessThan(MOST_ROWS);
    expect(await page.getByRole("status").filter({ hasText: "10,000" }).textContent()).toBe(
      "10,000",
    );

    // Of a change in view and one far above, the one in view is refetched at once.
    await calls.revoke(`many/${String(MANY - 2).padStart(5, "0")}`, "tested");
    await row(page, `many/${String(MANY - 2).padStart(5, "0")}`)
      .getByText("revoked")
      .waitFor();
    await page.evaluate("scrollTo(0, 0)");
    await row(page, "many/00000").waitFor();
    expect(await page.getByRole("row").count()).toBeLessThan(MOST_ROWS);
  });

  async function fill(prefix: string, count: number): Promise<void> {
    for (let from = 0; from < count; from += AT_ONCE) {
      await shown.stores.leases.acquire(
        Array.from({ length: AT_ONCE }, (_, index) => ({
          namespace: "default",
          resource: `${prefix}${String(from + index).padStart(5, "0")}`,
          leaseId: newLeaseId(systemRandom),
          holder: `holder-${index % 7}`,
          ttlMs: 3_600_000,
        })),
      );
    }
  }
});

/** The console's overview, in a browser, of leases and tasks that come and go. */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import { describeChromium } from "../support/browser/chromium.js";
import { axe, type Console, openConsole, overflows, PHONE } from "../support/browser/console.js";
import { leaseCalls } from "../support/server/lease-calls.js";

/** The text of a figure: its name, its value, its note. */
const figure = (page: Page, name: string) =>
  page.getByText(name, { exact: true }).locator("xpath=..");
const chart = (page: Page, name: string) =>
  page.getByRole("img", { name: new RegExp(`^${name}: `) });

describeChromium("the console's overview", () => {
  let shown: Console;
  let calls: ReturnType<typeof leaseCalls>;

  beforeAll(async () => {
    shown = await openConsole({ engine: "memory" });
    calls = leaseCalls(shown.url);
  });
  afterEach(() => shown.closePages());
  afterAll(async () => {
    await shown.close();
    expect(shown.complaints).toEqual([]);
  });

  it("counts what is held, free and contended, as it changes", async () => {
    const page = await shown.open("/");
    await expect.poll(() => figure(page, "Held").textContent()).toMatch(/^Held0/);
    const held = await calls.take("a", "ann");
    await calls.take("b", "ann");
    await (await calls.take("c", "ann")).release();
    for (const holder of ["bob", "cid"]) await calls.take("a", holder, { queueMs: 60_000 });
    await expect
      .poll(() => figure(page, "Held").textContent(), { timeout: 30_000 })
      .toMatch(/^Held2/);
    await expect.poll(() => figure(page, "Free").textContent()).toMatch(/^Free1/);
    await expect.poll(() => figure(page, "Contended").textContent()).toMatch(/^Contended1/);
    await expect.poll(() => figure(page, "Waiting").textContent()).toMatch(/^Waiting2/);
    await held.renew();
    await expect
      .poll(() => chart(page, "Renewals per second").getAttribute("aria-label"), {
        timeout: 30_000,
      })
      .toMatch(/renewed at most 1\/s/);
    await expect
      .poll(() => chart(page, "Grants per second").getAttribute("aria-label"))
      .toMatch(/acquired at most [1-3]\/s, released at most 1\/s, contended at most [12]\/s/);

    await calls.revoke("b", "tested");
    await expect
      .poll(() => chart(page, "Losses per second").getAttribute("aria-label"), { timeout: 30_000 })
      .toMatch(/revoked at most 1\/s/);
  });

  it("shows tasks, the engine, and how long the store takes", async () => {
    const email = defineTask<{ to: string }>("email");
    const tasksClient = await connect(shown.url, { holder: "worker" });
    const tasks = tasksClient.tasks;
    try {
      for (const to of ["ann", "bob"]) await tasks.enqueue(email, { to });
      const page = await shown.open("/");
      await expect
        .poll(() => figure(page, "Pending").textContent(), { timeout: 30_000 })
        .toMatch(/^Pending2/);
      await expect
        .poll(() => chart(page, "Tasks per second").getAttribute("aria-label"), { timeout: 30_000 })
        .toMatch(/added at most [12]\/s/);
      await page.getByRole("heading", { name: "Engine: memory" }).waitFor();
      await page.getByText("healthy", { exact: true }).waitFor();
      await page.getByRole("cell", { name: "tasks.enqueue" }).waitFor();
      await expect
        .poll(() => chart(page, "Store latency").getAttribute("aria-label"))
        .toMatch(/p99 at most .* ms/);
      // Each chart of a single instance says so.
      expect(await page.getByText("this instance", { exact: true }).count()).toBe(6);
      expect(await page.locator("canvas").count()).toBe(6);
    } finally {
      await tasksClient.close();
    }
  });

  it("shows the leaders", async () => {
    const leases = await connect(shown.url, { holder: "node-1" });
    const elector = leases.elector("scheduler", { ttlMs: 10_000 });
    const stop = new AbortController();
    const leading = elector.lead(
      (term) =>
        new Promise<void>((resolve) => {
          term.signal.addEventListener("abort", () => resolve(), { once: true });
        }),
      { signal: stop.signal },
    );
    try {
      const page = await shown.open("/");
      const line = page.getByRole("listitem").filter({ hasText: "scheduler" });
      await line.getByText("node-1").waitFor();
      stop.abort();
      await leading.catch(() => {});
      await line.getByText("no leader").waitFor();
    } finally {
      stop.abort();
      await leading.catch(() => {});
      await leases.close();
    }
  });

  it("keeps the span of its charts in the URL", async () => {
    const page = await shown.open("/");
    await page.getByRole("button", { name: "5 min" }).click();
    await page.reload();
    const button = page.getByRole("button", { name: "5 min" });
    await button.waitFor();
    expect(await button.getAttribute("aria-pressed")).toBe("true");
  });

  it("shows that the server is unavailable, with the last figures", async () => {
    const page = await shown.open("/");
    await figure(page, "Held").waitFor();
    const before = shown.complaints.length;
    await page.route("**/v1/overview?*", (route) =>
      route.fulfill({ status: 503, contentType: "application/problem+json", body: "{}" }),
    );
    await page.getByRole("alert").getByText("The server is unavailable").waitFor();
    expect(await figure(page, "Held").count()).toBe(1);
    await page.reload();
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await page.unroute("**/v1/overview?*");
    await page.getByRole("button", { name: "Try again" }).click();
    await figure(page, "Held").waitFor();
    for (const complaint of shown.complaints.splice(before)) expect(complaint).toContain("503");
  });

  it("asks an overloaded server again, and says nothing", async () => {
    const page = await shown.open("/leases");
    const before = shown.complaints.length;
    let refused = 0;
    await page.route("**/v1/overview?*", (route) => {
      refused += 1;
      return refused > 1
        ? route.continue()
        : route.fulfill({ status: 429, contentType: "application/problem+json", body: "{}" });
    });
    await page.getByRole("link", { name: "Overview", exact: true }).click();
    const shownFirst = await Promise.race([
      figure(page, "Held")
        .waitFor()
        .then(() => "figures"),
      page
        .getByRole("alert")
        .waitFor()
        .then(() => "alert"),
    ]);
    expect({ shownFirst, refused }).toEqual({ shownFirst: "figures", refused: 2 });
    for (const complaint of shown.complaints.splice(before)) expect(complaint).toContain("429");
  });

  it.each(["light", "dark"] as const)("has no accessibility findings, %s", async (theme) => {
    const page = await shown.open("/", { theme });
    await chart(page, "Store latency").waitFor();
    expect(await axe(page)).toEqual([]);
    await page.setViewportSize(PHONE);
    expect(await axe(page)).toEqual([]);
    expect(await overflows(page)).toBe(false);
  });
});

/** Every view of the console on what a running demo does: real processes on PGlite, over HTTP. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Browser, describeChromium, launchChromium } from "../support/browser/chromium.js";
import { overflows, PHONE } from "../support/browser/console.js";
import { freshPglite } from "../support/engines/pglite.js";
import { Cli, checkBuild, endAll } from "../support/processes/cli.js";

const PATIENCE_MS = 60_000;

describeChromium("the console of a running demo", () => {
  let browser: Browser;
  let page: Page;
  let url = "";
  let remove: () => Promise<void>;
  const complaints: string[] = [];

  beforeAll(async () => {
    checkBuild();
    const store = await freshPglite();
    remove = store.remove;
    const args = ["--port", "0", "--store", `pglite:${store.directory}`, "--rate", "3"];
    const demo = new Cli(["demo", "--plain", ...args]);
    await demo.until(({ out }) => out.some((line) => line.includes("task.completed")));
    [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(demo.out.join("\n")) ?? [];
    browser = await launchChromium();
    page = await browser.context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("console", (message) => {
      // A server on a noisy machine may refuse a read, and is asked again: what has to appear appears.
      const isRefusal = message.text().includes("status of 429");
      const isComplaint = ["error", "warning"].includes(message.type()) && !isRefusal;
      if (isComplaint) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.goto(url);
  });
  afterAll(async () => {
    await browser?.close();
    await endAll();
    await remove?.();
  });

  const go = async (name: string) => {
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
  };
  const main = () => page.getByRole("main");

  it("shows what its processes do, on every page", async () => {
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await main()
      .getByText(/^generator-\d-\w{4}$/)
      .first()
      .waitFor();

    await go("Leases");
    await main().getByRole("link", { name: "generator" }).click();
    await page.getByRole("heading", { level: 1, name: /generator/ }).waitFor();
    await main()
      .getByText(/^generator-\d-\w{4}$/)
      .first()
      .waitFor();

    await go("Tasks");
    await main()
      .getByText(/^worker-\d-\w{4}$/)
      .first()
      .waitFor();
    await main()
      .getByRole("link", { name: /^sleep/ })
      .first()
      .click();
    await page.getByRole("heading", { level: 1, name: /sleep/ }).waitFor();
    await main().getByText("sleep_duration_seconds").first().waitFor();

    await go("Schedules");
    const schedule = main().getByRole("listitem").filter({ hasText: "nap" });
    await schedule.getByText(/^every 10\s*s$/).waitFor();
    await go("Once");
    const keys = main().getByRole("list", { name: "Keys" });
    await keys
      .getByText(/^report:\d{4}-\d\d-\d\dT\d\d:\d\d$/)
      .first()
      .waitFor();
    await keys.getByText("demo").first().waitFor();

    await go("Workers");
    await main()
      .getByText(/^worker-\d-\w{4}$/)
      .first()
      .waitFor();
    await go("Elections");
    await main()
      .getByText(/^generator-\d-\w{4}$/)
      .first()
      .waitFor();
    await go("Events");
    await main().getByRole("listitem").first().waitFor();
    await go("Audit");
    await page.getByText("Loading").waitFor({ state: "hidden" });
    expect(complaints).toEqual([]);
  });

  it("fits a phone on each of them", async () => {
    await page.setViewportSize(PHONE);
    for (const path of [
      "",
      "leases",
      "leases/generator",
      "tasks",
      "schedules",
      "once",
      "workers",
      "elections",
      "events",
    ]) {
      await page.goto(`${url}/${path}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.getByText("Loading").waitFor({ state: "hidden" });
      expect(await overflows(page), path).toBe(false);
    }
    expect(complaints).toEqual([]);
  });
});

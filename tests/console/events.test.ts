/** The console's stream of events, on what goes through a server. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { describeChromium } from "../support/browser/chromium.js";
import { axe, type Console, openConsole, overflows, PHONE } from "../support/browser/console.js";
import { button, forgiveComplaints, openedPages, waitForCount } from "../support/browser/pages.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { leaseCalls } from "../support/server/lease-calls.js";
import { taskWorld } from "../support/server/task-world.js";

describeChromium("the console's events", () => {
  let console: Console;
  let calls: ReturnType<typeof leaseCalls>;
  beforeAll(async () => {
    console = await openConsole();
    calls = leaseCalls(console.url);
  });
  afterAll(() => console.close());
  const open = openedPages(() => console);
  const rows = (page: Page) =>
    page.getByRole("region", { name: "Events", exact: true }).getByRole("listitem");
  const live = (page: Page) => page.getByText("Live", { exact: true }).waitFor();

  it("shows events of leases, tasks and operators live", async () => {
    const page = await open("/events");
    await live(page);
    const { token } = await calls.take("doors/front", "ann");
    await calls.take("doors/front", "ben");
    const front = rows(page).filter({ hasText: "doors/front" });
    await front.filter({ hasText: "contended" }).filter({ hasText: "held by ann" }).waitFor();
    await front
      .filter({ hasText: "acquired" })
      .getByTitle(`fencing token ${token}`)
      .first()
      .waitFor();

    const world = taskWorld(console.url);
    const id = await world.add({ queue: "rung", kind: "bell" });
    await (await world.claim("rung", "worker-1")).fail("no bell", { retryInMs: 3_600_000 });
    const events = rows(page).filter({ has: page.getByTitle(`task:${id}`) });
    await waitForCount(events, 3);
    await events.filter({ hasText: "failed" }).filter({ hasText: "no bell" }).waitFor();
    await world.ask("PUT", "/v1/pauses", { kind: "queue", name: "rung", reason: "it rings" });
    await rows(page).filter({ hasText: "queue rung: it rings" }).waitFor();
    await events.first().getByRole("link").click();
    await page.getByRole("heading", { level: 1, name: "bell" }).waitFor();
    // Events that arrive while another page is open are kept.
    await calls.take("doors/back", "ann");
    await page.goBack();
    await rows(page).filter({ hasText: "doors/back" }).waitFor();
  });

  it("stops while it is paused, and counts the new events", async () => {
    const page = await open("/events?resource=paused/");
    await live(page);
    await calls.take("paused/1", "ann");
    await waitForCount(rows(page), 1);
    await page.keyboard.press("p");
    await page.getByText("Paused: 0 new events").waitFor();
    await calls.take("paused/2", "ann");
    await page.getByText("Paused: 1 new event").waitFor();
    await calls.take("paused/3", "ann");
    await calls.take("elsewhere", "ann");
    await page.getByText("Paused: 2 new events").waitFor();
    expect(await rows(page).count()).toBe(1);
    await button(page, "Resume").click();
    await waitForCount(rows(page), 3);
    await live(page);
  });

  it("is filtered by topic, type, resource and holder, which the URL keeps", async () => {
    await calls.take("filters/a", "carol");
    await calls.take("filters/a", "dave");
    await calls.take("filters/b", "dave");
    const page = await open("/events?resource=filters/");
    await waitForCount(rows(page), 3);
    await page.getByLabel("Type").selectOption("contended");
    await waitForCount(rows(page), 1);
    await page.getByLabel("Topic").selectOption("task");
    await page.getByText("No events match the filters").waitFor();
    await page.getByLabel("Topic").selectOption("");
    await page.getByLabel("Type").selectOption("acquired");
    await page.getByRole("searchbox", { name: "Holder" }).fill("DAVE");
    await waitForCount(rows(page), 1);
    await rows(page).filter({ hasText: "filters/b" }).waitFor();
    const kept = Object.fromEntries(new URL(page.url()).searchParams);
    expect(kept).toEqual({ resource: "filters/", type: "acquired", holder: "DAVE" });
    await page.reload();
    await waitForCount(rows(page), 1);
  });

  it("renders only the rows in view, and keeps the scroll position", async () => {
    const page = await open("/events?holder=crowd");
    await live(page);
    const batch = Array.from({ length: 300 }, (_, n) => ({
      leaseId: toWireLeaseId(`crowds/${n}`, newLeaseId(systemRandom)),
      holder: "crowd",
      ttlMs: 600_000,
    }));
    await taskWorld(console.url).ask("POST", "/v1/leases/acquire", batch);
    await rows(page).filter({ hasText: "crowds/299" }).waitFor();
    await page.getByText("300 of").waitFor();
    expect(await rows(page).count()).toBeLessThan(60);
    const list = page.getByRole("region", { name: "Events", exact: true });
    const top = () => list.evaluate((element) => element.scrollTop);
    await list.evaluate((element) => element.scrollTo({ top: 1_900 }));
    await rows(page).filter({ hasText: "crowds/249" }).waitFor();
    await calls.take("crowds/300", "crowd");
    await page.getByText("301 of").waitFor();
    await expect.poll(top).toBe(1_938);
    for (const key of ["j", "j"]) await page.keyboard.press(key);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "crowds/" }).waitFor();
  });

  it("resumes after a broken connection, without a gap or a repetition", async () => {
    const { hostname, port } = new URL(console.url);
    const proxy = await openTcpProxy({ host: hostname, port: Number(port) });
    try {
      const page = await open("/tasks");
      await page.goto(`http://127.0.0.1:${proxy.port}/events?resource=broken/`);
      await live(page);
      await calls.take("broken/1", "ann");
      await waitForCount(rows(page), 1);
      const asked = page.waitForRequest((request) => request.url().includes("/v1/activity"));
      const before = console.complaints.length;
      proxy.reset();
      await calls.take("broken/2", "ann");
      expect((await asked).headers()["last-event-id"]).toMatch(/\.\d+$/);
      await waitForCount(rows(page), 2);
      await live(page);
      expect((await rows(page).allTextContents()).join()).toMatch(/broken\/2.*broken\/1/);
      await page.close();
      forgiveComplaints(console, before, "net::ERR_");
    } finally {
      await proxy.close();
    }
  });

  it("shows refused writes of holders that had lost a lease", async () => {
    const world = taskWorld(console.url);
    const late = await calls.take("ledger/april", "ann");
    const act = { resource: "ledger/april", reason: "it hangs", free: "now" };
    await world.ask("POST", "/v1/leases/revoke", [act]);
    const page = await open("/events");
    await page.getByRole("link", { name: "Refused writes" }).click();
    await page.getByText("No refused writes").waitFor();
    expect(await late.renew()).toMatchObject({ status: "lost" });
    const refused = page.getByRole("list", { name: "Refused" }).getByRole("listitem");
    await refused.getByText("ledger/april").waitFor();
    await refused.getByText("revoked: an operator revoked the lease").waitFor();
    await refused.getByTitle(`fencing token ${late.token}`).waitFor();
    await page.getByRole("searchbox").fill("payroll/");
    await page.getByText("No refused writes").waitFor();
    expect(new URL(page.url()).search).toBe("?view=refused&prefix=payroll%2F");
  });

  it.each(["light", "dark"] as const)("has no accessibility findings, %s", async (theme) => {
    await calls.take(`looks/${theme}`, "ann");
    for (const path of [`/events?resource=looks/${theme}`, "/events?view=refused"]) {
      const page = await open(path, { theme });
      await page.getByRole("main").getByRole("listitem").first().waitFor();
      expect(await axe(page), path).toEqual([]);
      await page.setViewportSize(PHONE);
      expect(await axe(page), path).toEqual([]);
      expect(await overflows(page), path).toBe(false);
      await page.close();
    }
  });

  it("has logged no errors in the browser", () => {
    expect(console.complaints).toEqual([]);
  });
});

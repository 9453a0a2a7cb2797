/** The console's elections and shards, in a browser, as leaders come and go. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { describeChromium } from "../support/browser/chromium.js";
import { axe, type Console, openConsole, overflows, PHONE } from "../support/browser/console.js";

const SHARDS = 6;
/** Works until its signal aborts. */
const untilAborted = ({ signal }: { readonly signal: AbortSignal }) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

describeChromium("the console's elections", () => {
  let shown: Console;
  const ends: (() => Promise<unknown>)[] = [];
  const client = async (holder: string): Promise<Leasehold> => {
    const leases = await connect(shown.url, { holder, defaults: { ttlMs: 5_000 } });
    ends.push(() => leases.close());
    return leases;
  };

  beforeAll(async () => {
    shown = await openConsole();
  });
  afterEach(() => shown.closePages());
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
    await shown.close();
    expect(shown.complaints).toEqual([]);
  });

  it("shows that there are none", async () => {
    const page = await shown.open("/elections");
    await page.getByText("No elections or singletons").waitFor();
  });

  it("shows leader, term, changes and the time without a leader", async () => {
    const page = await shown.open("/elections");
    const panel = page.locator("section").filter({ hasText: "scheduler" });
    const candidacies = ["ann", "bob"].map(async (holder) => {
      const elector = (await client(holder)).elector("scheduler");
      const stop = new AbortController();
      const led = elector.lead(untilAborted, { signal: stop.signal }).catch(() => {});
      const leave = async () => {
        stop.abort();
        await led;
      };
      ends.push(leave);
      return { holder, leave, elector };
    });
    const both = await Promise.all(candidacies);
    await expect.poll(() => both.some(({ elector }) => elector.state === "leading")).toBe(true);
    const first = both.find(({ elector }) => elector.state === "leading");
    const second = both.find((one) => one !== first);
    if (!first || !second) throw new Error("there is no leader");
    await panel.getByText(first.holder).first().waitFor();
    await panel.getByText("one known term").waitFor();

    await first.leave();
    await panel.getByText("among 2 terms").waitFor();
    await panel.getByText(second.holder).first().waitFor();
    await panel.getByText("The last 2 terms").click();
    const rows = panel.getByRole("row");
    await expect
      .poll(() => rows.allTextContents())
      .toEqual([
        expect.stringMatching("Leader"),
        expect.stringMatching(new RegExp(`^2${second.holder}.*live.*\\d (ms|s)$`)),
        expect.stringMatching(new RegExp(`^1${first.holder}.*released.*unknown$`)),
      ]);
    await panel.getByText(/time without a leader/).waitFor();

    await second.leave();
    await panel.getByText("no leader", { exact: false }).first().waitFor();
    await page.getByRole("link", { name: "scheduler" }).click();
    await page.getByRole("heading", { name: "scheduler" }).waitFor();
  });

  it("shows singletons", async () => {
    const singleton = (await client("node-1")).singleton("outbox", untilAborted).start();
    ends.push(() => singleton.close());
    const page = await shown.open("/elections");
    const panel = page.locator("section").filter({ hasText: "outbox" });
    await panel.getByText("node-1").first().waitFor();
    await panel.getByText("singleton", { exact: true }).waitFor();
  });

  it("shows the members of shards and what each has", async () => {
    const page = await shown.open("/elections");
    for (const holder of ["member-1", "member-2"]) {
      const shards = (await client(holder)).shards("ingest", {
        count: SHARDS,
        pollIntervalMs: 100,
        work: (_, lease) => untilAborted(lease),
      });
      shards.start();
      ends.push(() => shards.close());
    }
    const members = page.getByRole("list", { name: "Members of ingest" });
    for (const holder of ["member-1", "member-2"]) {
      const member = members.getByRole("listitem").filter({ hasText: holder });
      await member.getByText(`${SHARDS / 2} shards`).waitFor();
    }
    await page.getByText(`${SHARDS} shards`, { exact: true }).waitFor();
    await members.getByRole("link").first().click();
    await page.getByRole("heading", { name: /^ingest\/shards\/\d/ }).waitFor();
  });

  it.each(["light", "dark"] as const)("has no accessibility findings, %s", async (theme) => {
    const page = await shown.open("/elections", { theme });
    await page.getByText("The last 2 terms").click();
    expect(await axe(page)).toEqual([]);
    await page.setViewportSize(PHONE);
    expect(await axe(page)).toEqual([]);
    expect(await overflows(page)).toBe(false);
  });
});

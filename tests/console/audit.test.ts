/** The console's audit, on what operators have done to a server's own stores. */
import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { AuditLog } from "../../packages/leasehold/src/control/index.js";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
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
import { taskWorld } from "../support/server/task-world.js";

describeChromium("the console's audit", () => {
  let console: Console;
  let ask: ReturnType<typeof taskWorld>["ask"];
  /** The number of an entry that was changed behind the server's back. */
  let changed: number | undefined;
  beforeAll(async () => {
    const stores = await memory().open(systemEnv);
    const { control } = stores;
    if (!control) throw new Error("the store keeps no audit");
    console = await openConsole({
      stores: { ...stores, control: { ...control, audit: changeable(control.audit) } },
    });
    ({ ask } = taskWorld(console.url));
  });
  afterAll(() => console.close());
  const open = openedPages(() => console);
  const rows = (page: Page) => page.getByRole("list", { name: "Entries" }).getByRole("listitem");

  const changeable = (audit: AuditLog): AuditLog => ({
    append: (entries) => audit.append(entries),
    list: (query) => audit.list(query),
    head: () => audit.head(),
    read: async (afterSeq, limit) =>
      (await audit.read(afterSeq, limit)).map((entry) =>
        entry.seq === changed ? { ...entry, reason: "another one" } : entry,
      ),
  });
  const pause = (name: string, reason: string) =>
    ask("PUT", "/v1/pauses", { kind: "queue", name, reason });

  it("is empty and intact at first", async () => {
    const page = await open("/audit");
    await page.getByText("No entries yet").waitFor();
    await button(page, "Verify").click();
    await page.getByText("Intact", { exact: true }).waitFor();
    await page.getByText("There are no entries yet.").waitFor();
  });

  it("lists actions with target, actor and reason live; the URL keeps the filters", async () => {
    const page = await open("/audit");
    await page.getByText("No entries yet").waitFor();
    await pause("nightly", "the books are open");
    await rows(page).first().getByText("queue.pause").waitFor();
    await rows(page).first().getByText("the books are open").waitFor();
    await ask("PUT", "/api/generator/rate", { ratePerSecond: 3, reason: "slowly" });
    await waitForCount(rows(page), 4);
    await page.getByLabel("Action", { exact: true }).selectOption("generator.rate");
    await waitForCount(rows(page), 2);
    await page.getByLabel("Action", { exact: true }).selectOption("");
    await page.getByRole("searchbox", { name: "Target" }).fill("nightly");
    await waitForCount(rows(page), 2);
    await page.getByRole("searchbox", { name: "Actor" }).fill("any");
    await page.getByText("2 of the 2 latest entries are by “any”").waitFor();
    const kept = Object.fromEntries(new URL(page.url()).searchParams);
    expect(kept).toEqual({ target: "nightly", actor: "any" });
    await page.reload();
    await waitForCount(rows(page), 2);
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    const details = page.getByRole("region", { name: "details of entry 2" });
    await details.getByText('"kind": "queue"').waitFor();
    await page.getByRole("searchbox", { name: "Actor" }).fill("absent");
    await page.getByText("No entries match the filters").waitFor();
  });

  it("loads more entries on scroll, and exports all of them", async () => {
    for (let n = 0; n < 60; n += 1) await pause(`many-${n}`, "page after page");
    const page = await open("/audit");
    await waitForCount(rows(page), 100);
    await rows(page).last().scrollIntoViewIfNeeded();
    await waitForCount(rows(page), 124);
    const download = page.waitForEvent("download");
    await button(page, "Export as JSON lines").click();
    const lines = (await readFile(await (await download).path(), "utf8")).trim().split("\n");
    const entries = lines.map((line) => JSON.parse(line) as { seq: number; hash: string });
    expect(entries.map(({ seq }) => seq)).toEqual(Array.from({ length: 124 }, (_, n) => 124 - n));
    expect(entries[0]).toMatchObject({ action: "queue.pause", target: "many-59" });
  });

  it("verifies the chain, and shows where it is broken", async () => {
    await pause("verified", "to have an entry");
    const page = await open("/audit?target=verified");
    const { seq } = await ask("GET", "/v1/audit/verify");
    await pause("later", "the chain goes on");
    const said = page.getByRole("region", { name: "Verify the audit" });
    await button(page, "Verify").click();
    await said.getByText(`All ${seq + 2} entries, of all tenants`).waitFor();

    changed = 2;
    await button(page, "Verify").click();
    await said.getByText("Broken at entry 2", { exact: true }).waitFor();
    const { problem } = await ask("GET", "/v1/audit/verify");
    await said.getByText(problem).waitFor();
    expect(await axe(page)).toEqual([]);
    changed = undefined;
    await button(page, "Verify").click();
    await page.getByText("Intact", { exact: true }).waitFor();
  });

  it.each(["light", "dark"] as const)("has no accessibility findings, %s", async (theme) => {
    await pause(`looks-${theme}`, "to be seen");
    const page = await open(`/audit?target=looks-${theme}`, { theme });
    await rows(page).first().waitFor();
    await button(page, "Verify").click();
    await page.getByText("Intact", { exact: true }).waitFor();
    expect(await axe(page)).toEqual([]);
    await page.setViewportSize(PHONE);
    expect(await axe(page)).toEqual([]);
    expect(await overflows(page)).toBe(false);
  });

  it("shows the name that a caller gives itself as a claim", async () => {
    const body = { resource: "claimed", reason: "stuck", actorId: "zoe" };
    await ask("POST", "/v1/locks/force-unlock", body);
    const page = await open("/audit?target=claimed&actor=zoe");
    await waitForCount(rows(page), 2);
    await rows(page).first().getByText("anyone, claims zoe").waitFor();
  });

  it("has logged no errors in the browser", () => {
    expect(console.complaints).toEqual([]);
  });
});

describeChromium("the console's audit, where it cannot be read", () => {
  let console: Console;
  afterAll(() => console.close());
  const open = openedPages(() => console);

  it("explains that the server keeps none, or that this key may not read it", async () => {
    console = await openConsole({ control: undefined });
    const page = await open("/audit");
    await page.getByText("This server keeps no audit log").waitFor();
    expect(await axe(page)).toEqual([]);
    await console.close();

    console = await openConsole({ auth: "keys" });
    const other = await open("/audit");
    await other.getByLabel("API key").fill(await newKey(console.stores, "viewer"));
    await button(other, "Sign in").click();
    await other.getByText("Only operators and admins can read the audit log").waitFor();
  });
});

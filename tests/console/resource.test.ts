/** The console's page of one resource: holders over time, late calls, and operator actions. */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { describeChromium } from "../support/browser/chromium.js";
import {
  axe,
  type Console,
  newKey,
  openConsole,
  overflows,
  PHONE,
} from "../support/browser/console.js";
import { leaseCalls } from "../support/server/lease-calls.js";

const pathOf = (resource: string) => `/leases/${encodeURIComponent(resource)}`;
const grant = (page: Page, name: string) =>
  page.getByRole("listitem").getByRole("button", { name: new RegExp(`^token ${name}`) });

describeChromium("the console's page of a resource", () => {
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

  it("shows a bar per token, why each ended, the waiters, and the refused late calls", async () => {
    const ann = await calls.take("billing", "ann");
    await ann.renew();
    await ann.renew();
    await ann.release();
    const bob = await calls.take("billing", "bob", { ttlMs: 200 });
    const key = { namespace: "default", resource: "billing" };
    await expect.poll(async () => (await shown.stores.leases.get([key]))[0]?.state).toBe("expired");
    expect(await bob.renew()).toMatchObject({ status: "lost", reason: "expired" });
    const cid = await calls.take("billing", "cid", { metadata: "pid 4711" });
    await calls.revoke("billing", "the host is down");
    expect(await cid.renew()).toMatchObject({ status: "lost", reason: "revoked" });
    await calls.take("billing", "dan");
    await calls.take("billing", "eve", { queueMs: 60_000 });

    const page = await shown.open(pathOf("billing"));
    await page.getByText("Held by dan").waitFor();
    const bars = page.getByRole("list", { name: "Grants, newest first" });
    await expect
      .poll(() => bars.getByRole("button").allTextContents())
      .toEqual([
        expect.stringMatching(/^token4danheld for .*, current holder, free for /),
        expect.stringMatching(/^token3cidheld for .*, revoked by an operator, free for /),
        expect.stringMatching(/^token2bobheld for .*, expired, then acquired by cid, free for /),
        expect.stringMatching(/^token1annheld for .*, released by its holder$/),
      ]);
    // Each in the colour of its token.
    const styles = await bars
      .locator("[data-part=held]")
      .evaluateAll((all) => all.map((one) => one.parentElement?.getAttribute("style")));
    expect(new Set(styles).size).toBe(4);

    const details = page.getByRole("region", { name: "Selected grant" });
    await grant(page, "1 ").focus();
    await details.getByText("released by its holder").waitFor();
    expect(await details.getByRole("definition").allTextContents()).toContain("2");
    await grant(page, "3 ").hover();
    await details.getByText("pid 4711").waitFor();

    const late = page.getByRole("list", { name: "Refused late calls" }).getByRole("listitem");
    expect(await late.allTextContents()).toEqual([
      expect.stringMatching(/^3cid.*renew.*revoked/),
      expect.stringMatching(/^2bob.*renew.*expired/),
    ]);
    await page.getByRole("listitem").getByText("eve", { exact: true }).waitFor();
  });

  it("revokes with a reason, which the audit log keeps and the page shows", async () => {
    const ann = await calls.take("revoked", "ann");
    const page = await shown.open(pathOf("revoked"));
    await page.getByRole("button", { name: "Revoke…" }).click();
    const dialog = page.getByRole("dialog", { name: "Revoke revoked?" });
    expect(await dialog.getByRole("definition").allTextContents()).toEqual(["ann", "1"]);
    expect(await dialog.getByRole("radio", { name: "Free at its expiry" }).isChecked()).toBe(true);
    expect(await dialog.getByRole("button", { name: "Revoke" }).isDisabled()).toBe(true);
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole("textbox", { name: "Reason" }).fill("its host burns");
    await dialog.getByRole("button", { name: "Revoke" }).click();
    await dialog.waitFor({ state: "hidden" });
    const entries = page.getByRole("list", { name: "Audit entries" });
    await entries.getByText("its host burns").first().waitFor();
    expect(await ann.renew()).toMatchObject({ status: "lost", reason: "revoked" });
    expect((await calls.take("revoked", "bob")).status).toBe("held");
    await grant(page, "1 ann held for").waitFor();
    await page.getByRole("definition").getByText("blocked until its expiry").waitFor();
    await page.getByText(/^Revoked from ann, free in \d/).waitFor();
    const list = await shown.open("/leases?q=revoked");
    await list.getByRole("row", { name: /^revoked revoked ann 1 free in \d/ }).waitFor();

    const audit = await fetch(`${shown.url}/v1/audit?target=revoked&action=lease.revoke`);
    const { items } = (await audit.json()) as { items: { reason: string }[] };
    expect(items.map(({ reason }) => reason)).toContain("its host burns");

    // A second revocation frees a resource that is still blocked.
    await page.getByRole("button", { name: "Revoke…" }).click();
    expect(await dialog.getByRole("radio", { name: "Free now" }).isChecked()).toBe(true);
    await dialog.getByText("Only resources that check fencing tokens are protected").waitFor();
    await dialog.getByRole("textbox", { name: "Reason" }).fill("it was switched off");
    await dialog.getByRole("button", { name: "Revoke" }).click();
    await dialog.waitFor({ state: "hidden" });
    await entries.getByText("it was switched off").first().waitFor();
    expect(await calls.take("revoked", "bob")).toMatchObject({ status: "acquired", token: 2 });
  });

  it("revokes only the grant that the operator saw", async () => {
    const ann = await calls.take("taken", "ann");
    const page = await shown.open(pathOf("taken"));
    await page.getByRole("button", { name: "Revoke…" }).click();
    const dialog = page.getByRole("dialog");
    await ann.release();
    const bob = await calls.take("taken", "bob");
    await dialog.getByText("The lease has a newer grant with token 2").waitFor();
    await dialog.getByRole("textbox", { name: "Reason" }).fill("ann is gone");
    await dialog.getByRole("button", { name: "Revoke" }).click();
    await dialog.getByText("Nothing was revoked: token 1 is not the current one").waitFor();
    expect((await bob.renew()).status).toBe("renewed");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
  });

  it("pauses and resumes", async () => {
    await (await calls.take("paused", "ann")).release();
    const page = await shown.open(pathOf("paused"));
    await page.getByRole("button", { name: "Pause…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("the disk is swapped");
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await page.getByText("no new grants").waitFor();
    await expect.poll(async () => (await calls.take("paused", "bob")).status).toBe("held");
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.getByText("no new grants").waitFor({ state: "hidden" });
    await expect.poll(async () => (await calls.take("paused", "cid")).status).toBe("acquired");
    await page.getByText("Held by cid").waitFor();
    await page.getByText("resource.resume").first().waitFor();
  });

  it("notes that a name looks like another one", async () => {
    await calls.take("p\u0430yment", "ann");
    const page = await shown.open(pathOf("p\u0430yment"));
    await page.getByRole("note").getByText("mixes Latin and Cyrillic letters").waitFor();
    const plain = await shown.open(pathOf("payment"));
    await plain.getByText("No grants yet").waitFor();
    expect(await plain.getByRole("note").count()).toBe(0);
  });

  it("is empty at first, and shows the first grant live", async () => {
    const page = await shown.open(pathOf("new/one"));
    await page.getByText("No grants yet").waitFor();
    await calls.take("new/one", "ann");
    await grant(page, "1 ann").waitFor();
    await page.getByRole("button", { name: "last 10m" }).click();
    await page.reload();
    await grant(page, "1 ann").waitFor();
    const button = page.getByRole("button", { name: "last 10m" });
    expect(await button.getAttribute("aria-pressed")).toBe("true");
  });

  it("has pages of earlier holders", async () => {
    for (let term = 0; term < 60; term += 1) {
      await (await calls.take("often", `worker-${term}`)).release();
    }
    const page = await shown.open(pathOf("often"));
    await grant(page, "60 ").waitFor();
    await page.getByRole("button", { name: "Earlier holders" }).click();
    await grant(page, "1 ").waitFor();
    expect(await page.getByRole("button", { name: "Earlier holders" }).count()).toBe(0);
  });

  it("loads the next page even if a change arrives meanwhile", async () => {
    for (let term = 0; term < 60; term += 1) {
      await (await calls.take("busy", `worker-${term}`)).release();
    }
    const page = await shown.open(pathOf("busy"));
    await grant(page, "60 ").waitFor();
    let onTheWay = () => {};
    const asked = new Promise<void>((resolve) => {
      onTheWay = resolve;
    });
    await page.route(/\/v1\/resource\?.*cursor=./, async (route) => {
      onTheWay();
      await readAgain;
      await route.continue();
    });
    // An operator action refetches the visible queries, the audit log among them.
    const readAgain = page.waitForRequest(/\/v1\/audit/);
    await page.getByRole("button", { name: "Earlier holders" }).click();
    await asked;
    await fetch(`${shown.url}/v1/pauses`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ kind: "queue", name: "beside", reason: "it rings" }),
    });
    await grant(page, "1 ").waitFor();
  });

  it.each(["light", "dark"] as const)("has no accessibility findings, %s", async (theme) => {
    const page = await shown.open(pathOf("billing"), { theme });
    await grant(page, "4 ").waitFor();
    expect(await axe(page)).toEqual([]);
    await page.setViewportSize(PHONE);
    expect(await axe(page)).toEqual([]);
    expect(await overflows(page)).toBe(false);
  });

  it("shows a viewer no actions and no audit log", async () => {
    const guarded = await openConsole();
    try {
      await leaseCalls(guarded.url).take("seen", "ann");
      const key = await newKey(guarded.stores, "viewer");
      const page = await guarded.open(pathOf("seen"));
      await page.getByLabel("API key").fill(key);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("Held by ann").waitFor();
      await page.getByText("viewer", { exact: true }).waitFor();
      for (const name of ["Revoke…", "Pause…"]) {
        expect(await page.getByRole("button", { name }).count()).toBe(0);
      }
      expect(await page.getByRole("heading", { name: "Audit" }).count()).toBe(0);
    } finally {
      await guarded.close();
    }
  });
});

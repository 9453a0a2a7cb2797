/** Blocked concurrency keys and limits on the console's page of tasks, on a server's own stores. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect, defineTask, type Leasehold } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/index.js";
import { describeChromium } from "../support/browser/chromium.js";
import { axe, type Console, openConsole, overflows, PHONE } from "../support/browser/console.js";
import { openedPages } from "../support/browser/pages.js";

describeChromium("the console's limits and keys of tasks", () => {
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

  it("shows a blocked key, a limit that is reached and a rate that is used up, and why a task waits", async () => {
    const { tasks } = leasehold;
    const pay = defineTask("pay", { concurrencyKey: () => "ada" });
    const report = defineTask("report", { limit: { running: 1 } });
    const mail = defineTask("mail", { limit: { rate: { limit: 1, perMs: 3_600_000 } } });
    const endless = () => new Promise<null>(() => {});
    for (const kind of [pay, report, mail])
      await tasks.enqueueAll(kind, [{ data: 1 }, { data: 2 }]);
    const handlers = [pay.handle(endless), report.handle(endless), mail.handle(() => null)];
    const worker = tasks.work(handlers, { graceMs: 0 });
    const page = await open("/tasks");
    const item = (list: string, text: string) =>
      page.getByRole("list", { name: list }).getByRole("listitem").filter({ hasText: text });
    const key = item("Blocked concurrency keys", "ada");
    await key.getByText("1 pending, 1 at a time in order").waitFor();
    await key.getByText("web-1").waitFor();
    const limits = "Limits of kinds and queues";
    await item(limits, "report").getByText("1 of 1 running").waitFor();
    await item(limits, "report").getByText("the others wait for").waitFor();
    await item(limits, "mail").getByText("the rate is used up until").waitFor();
    await item(limits, "mail").getByText("declared by web-1").waitFor();
    const { items } = await tasks.list({ kind: "report", states: ["pending"] });
    const waiting = await open(`/tasks/${items[0]?.id}`);
    await waiting.getByText("of the kind report, 1 task runs at a time").waitFor();
    await worker.close();
  });

  it("fits a phone and is accessible", async () => {
    for (const theme of ["light", "dark"] as const) {
      for (const viewport of [{ width: 1400, height: 900 }, PHONE]) {
        const page = await open("/tasks", { viewport, theme });
        await page.getByRole("list", { name: "Limits of kinds and queues" }).waitFor();
        expect(await overflows(page)).toBe(false);
        expect(await axe(page)).toEqual([]);
        await page.close();
      }
    }
    expect(console.complaints).toEqual([]);
  });
});

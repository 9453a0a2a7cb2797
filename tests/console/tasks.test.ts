/** The console's pages of tasks and workers, on tasks of a server's own stores. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { startGenerator } from "../../packages/leasehold-server/src/generator/singleton.js";
import { GeneratorState } from "../../packages/leasehold-server/src/generator/state.js";
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
import { taskWorld } from "../support/server/task-world.js";

describeChromium("the console's tasks", () => {
  let console: Console;
  let world: ReturnType<typeof taskWorld>;
  beforeAll(async () => {
    console = await openConsole();
    world = taskWorld(console.url);
  });
  afterAll(() => console.close());

  const open = openedPages(() => console);
  const rows = (page: Page) => page.getByRole("list", { name: "Tasks" }).getByRole("listitem");
  const dialog = (page: Page) => page.getByRole("dialog");

  describe("the list", () => {
    it("has a tab for each state, with its count, and filters that the URL keeps", async () => {
      await world.addMany(3, { queue: "tabs", kind: "one" });
      await world.addMany(2, { queue: "tabs", kind: "two" });
      const claimed = await world.claim("tabs", "worker-1");
      await claimed.fail("the printer is on fire");
      const counts = await world.ask("GET", "/api/tasks/counts");
      const page = await open("/tasks");
      await page.getByRole("link", { name: `Dead ${counts.dead}` }).click();
      await page.getByRole("searchbox", { name: "Queue" }).fill("tabs");
      await waitForCount(rows(page), 1);
      await page.getByText("the printer is on fire").waitFor();

      await page.getByRole("link", { name: "Pending" }).click();
      await waitForCount(rows(page), 4);
      await page.getByRole("searchbox", { name: "Kind" }).fill("two");
      await waitForCount(rows(page), 2);
      await page.keyboard.press("Escape");
      await page.keyboard.press("/");
      await page.keyboard.type('"n":1');
      await waitForCount(rows(page), 1);
      const kept = Object.fromEntries(new URL(page.url()).searchParams);
      expect(kept).toEqual({ state: "pending", queue: "tabs", kind: "two", text: '"n":1' });
      await page.reload();
      await waitForCount(rows(page), 1);
      await page.getByRole("searchbox", { name: "Text or id" }).fill(claimed.id);
      await page.getByRole("link", { name: `Open the task with the id ${claimed.id}` }).click();
      await page.getByRole("heading", { level: 1, name: "one" }).waitFor();
    });

    it("loads more rows on scroll, and shows added tasks live", async () => {
      await world.addMany(230, { queue: "pages" });
      const page = await open("/tasks?queue=pages");
      await waitForCount(rows(page), 100);
      await rows(page).last().scrollIntoViewIfNeeded();
      await waitForCount(rows(page), 200);
      await rows(page).last().scrollIntoViewIfNeeded();
      await waitForCount(rows(page), 230);
      await world.add({ queue: "pages", kind: "latecomer" });
      await rows(page).getByText("latecomer").waitFor();
    });

    it("shows and searches the beginning of large data, and its page shows all of it", async () => {
      const text = `begins ${"x".repeat(2_000)} ends`;
      await world.add({ queue: "large", kind: "large", task_data: { text } });
      const page = await open("/tasks?queue=large&text=begins");
      await page.getByText("only the beginning is searched").waitFor();
      await rows(page)
        .getByText(`{"text":"begins ${"x".repeat(184)}…`)
        .waitFor();
      await rows(page).getByRole("link", { name: "large" }).click();
      await page.getByRole("region", { name: "input" }).getByText("x ends").waitFor();
    });

    it("shows the beginning of very large data, and all of it on request", async () => {
      await world.add({ queue: "very-large", kind: "very-large", task_data: "x".repeat(100_000) });
      const page = await open("/tasks?queue=very-large");
      await rows(page).getByRole("link", { name: "very-large" }).click();
      const input = page.getByRole("region", { name: "input" });
      await page.getByText("The first 20,000 of 100,002 characters.").waitFor();
      expect((await input.textContent())?.length).toBe(20_001);
      await page.getByRole("button", { name: "Show all" }).click();
      await expect.poll(async () => (await input.textContent())?.length).toBe(100_002);
    });

    it("selects by keyboard, with X a range, and changes the selected tasks", async () => {
      await world.addMany(5, { queue: "keys" });
      const page = await open("/tasks?queue=keys");
      await waitForCount(rows(page), 5);
      for (const key of ["j", "j", "x", "j", "j", "Shift+X", "k", "x"]) {
        await page.keyboard.press(key);
      }
      await page.getByText("2 selected").waitFor();
      await button(page, "Cancel 2").click();
      await dialog(page).getByRole("heading", { name: "Cancel 2 tasks?" }).waitFor();
      await dialog(page).getByLabel("Reason").fill("not these");
      await page.keyboard.press("Enter");
      await page.getByText("2 tasks cancelled").first().waitFor();
      expect(await world.states("keys")).toEqual({ pending: 3, cancelled: 2 });
      const { items } = await world.ask("GET", "/v1/audit?action=task.cancel&limit=1");
      expect(items[0]).toMatchObject({ reason: "not these", target: "2 tasks" });

      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Details" }).waitFor();
    });

    it("changes all matching tasks, including those not shown", async () => {
      await world.addMany(130, { queue: "bulk" });
      await world.addMany(2, { queue: "not-bulk" });
      const page = await open("/tasks?queue=bulk&state=pending");
      await waitForCount(rows(page), 100);
      const asked = page.waitForRequest((request) => request.url().endsWith("/api/tasks/bulk"));
      await button(page, "Cancel all").click();
      await dialog(page).getByRole("heading", { name: "Cancel 130 tasks?" }).waitFor();
      await dialog(page).getByText("All tasks that are pending, queue bulk").waitFor();
      await button(page, "Cancel 130 tasks").click();
      // The audit needs a reason.
      expect(await world.states("bulk")).toEqual({ pending: 130 });
      await dialog(page).getByLabel("Reason").fill("the queue is given up");
      await button(page, "Cancel 130 tasks").click();
      expect((await asked).postDataJSON()).toMatchObject({ operation: "cancel", expected: 130 });
      await page.getByText("130 tasks cancelled").first().waitFor();
      await page.getByText("No pending tasks").waitFor();
      expect(await world.states("bulk")).toEqual({ cancelled: 130 });
      expect(await world.states("not-bulk")).toEqual({ pending: 2 });
      await page.getByRole("link", { name: "Cancelled" }).click();
      await button(page, "Delete all").click();
      await dialog(page).getByLabel("Reason").fill("tidy");
      await button(page, "Delete 130 tasks").click();
      await page.getByText("No cancelled tasks").waitFor();
      expect(await world.states("bulk")).toEqual({});
    });

    it("pauses a queue, shows the pause, and resumes the queue", async () => {
      const page = await open("/tasks?queue=night");
      await button(page, "Pause queue").click();
      await dialog(page).getByLabel("Reason").fill("the books are open");
      await button(page, "Pause").click();
      const paused = page.getByRole("list", { name: "Paused queues" });
      await paused.getByText("the books are open").waitFor();
      const id = await world.add({ queue: "night" });
      const other = await open(`/tasks/${id}`);
      await other.getByRole("list", { name: "Reasons" }).getByText("paused").waitFor();
      await button(page, "Resume night").click();
      await paused.waitFor({ state: "hidden" });
      expect((await world.ask("GET", "/v1/pauses")).items).toEqual([]);
    });
  });

  it("adds a task by a form that refuses invalid JSON", async () => {
    const page = await open("/tasks");
    await button(page, "Add task").click();
    await page.getByLabel("Kind", { exact: true }).last().fill("report");
    await dialog(page).getByLabel("Queue").fill("forms");
    await page.getByLabel("Data (JSON)").fill('{"pages": ');
    await page.getByLabel("Priority").fill("-5");
    await page.getByLabel("Dedupe key").fill("2026-04");
    await page.getByLabel("Max attempts").fill("3");
    await page.getByLabel("Not before").fill("2099-01-02T03:04:05");
    await button(page, "Add").click();
    await page.getByRole("alert").filter({ hasText: "This is not JSON: line 1, " }).waitFor();
    for (const [text, why] of [
      ['{"id": 9007199254740993}', "This would be changed: id is 9007199254740993, beyond"],
      ['{"id": 1, "id": 2}', "This would be changed: id occurs twice"],
    ] as const) {
      await page.getByLabel("Data (JSON)").fill(text);
      await page.getByRole("alert").filter({ hasText: why }).waitFor();
    }
    await page.getByLabel("Data (JSON)").fill('{"pages": [1, 2]}');
    await button(page, "Add").click();
    await page.getByRole("heading", { level: 1, name: "report" }).waitFor();
    const id = new URL(page.url()).pathname.split("/").at(-1) ?? "";
    const dueMs: number = await page.evaluate("new Date(2099, 0, 2, 3, 4, 5).getTime()");
    expect(await world.ask("GET", `/api/tasks/${id}`)).toMatchObject({
      kind: "report",
      queue: "forms",
      task_data: { pages: [1, 2] },
      priority: -5,
      dedupeKey: "2026-04",
      maxAttempts: 3,
      state: "pending",
      scheduled_at: new Date(dueMs).toISOString(),
    });
    await page.getByRole("list", { name: "Reasons" }).getByText("scheduled").waitFor();
    await page.getByRole("region", { name: "input" }).getByText('"pages"').waitFor();

    await page.getByRole("link", { name: "Tasks", exact: true }).first().click();
    await button(page, "Add task").click();
    await page.getByLabel("Kind", { exact: true }).last().fill("report");
    await page.getByLabel("Dedupe key").fill("2026-04");
    await button(page, "Add").click();
    await page.getByText("A task with this dedupe key already exists").first().waitFor();
    await expect.poll(() => new URL(page.url()).pathname).toBe(`/tasks/${id}`);
  });

  it("fills the form with the data of the kind's last task, until it is edited", async () => {
    await world.add({ kind: "invoice", task_data: { number: "16" } });
    await world.add({ kind: "invoice", task_data: { number: "17", lines: [{ cents: 5 }] } });
    await world.add({ kind: "receipt", task_data: null });
    await world.add({ kind: "novel", task_data: "x".repeat(2_000) });
    const page = await open("/tasks?kind=invoice");
    await button(page, "Add task").click();
    const kind = dialog(page).getByLabel("Kind");
    const data = page.getByLabel("Data (JSON)");
    const help = dialog(page).getByText("The data of the last task of this kind, as an example.");
    const example = JSON.stringify({ number: "17", lines: [{ cents: 5 }] }, null, 2);
    await expect.poll(() => data.inputValue()).toBe(example);
    await help.waitFor();
    expect(await data.getAttribute("aria-describedby")).toBe(await help.getAttribute("id"));

    // Another kind is not given the data of this one, not even before the field is left.
    await kind.fill("none of it");
    expect(await data.inputValue()).toBe("{}");
    expect(await help.count()).toBe(0);
    for (const [name, text] of [
      ["receipt", "null"],
      ["novel", "{}"],
      ["invoice", example],
    ] as const) {
      await kind.fill(name);
      await kind.blur();
      await expect.poll(() => data.inputValue()).toBe(text);
    }

    await data.fill("");
    expect(await help.count()).toBe(0);
    await data.fill('{"number": "18"}');
    await kind.fill("receipt");
    await dialog(page).getByLabel("Queue").fill("books");
    expect(await data.inputValue()).toBe('{"number": "18"}');
    await kind.fill("invoice");
    await button(page, "Add").click();
    await page.getByRole("heading", { level: 1, name: "invoice" }).waitFor();
    await page.getByRole("region", { name: "input" }).getByText('"18"').waitFor();
  });

  describe("a task", () => {
    it("shows attempts with their tokens, progress, and an output to copy, live", async () => {
      const id = await world.add({ queue: "runs", kind: "ship", task_data: { box: 7 } });
      const page = await open(`/tasks/${id}`);
      await page.getByRole("list", { name: "Reasons" }).getByRole("listitem").first().waitFor();
      const attempts = page.getByRole("list", { name: "Attempts" }).getByRole("listitem");
      const first = await world.claim("runs", "worker-1");
      await attempts.getByText("worker-1").waitFor();
      await first.fail("no tape", { retryInMs: 0 });
      await attempts.getByText("no tape").waitFor();
      const second = await world.claim("runs", "worker-2");
      await second.heartbeat({ done: 3, total: 8 });
      await attempts.getByText("3 of 8").waitFor();
      expect(await attempts.count()).toBe(2);
      await attempts.first().getByTitle(`fencing token ${second.fencingToken}`).waitFor();
      await attempts.last().getByTitle(`fencing token ${first.fencingToken}`).waitFor();
      await second.complete({ parcel: "P-7" });
      const output = page.getByRole("region", { name: "output" });
      await output.getByText('"P-7"').waitFor();
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await button(page, "Copy output").click();
      await page.getByText("Copied").waitFor();
      const copied = await page.evaluate("navigator.clipboard.readText()");
      expect(JSON.parse(String(copied))).toEqual({ parcel: "P-7" });
    });

    it("shows its limits of time, why it was put off, and that it has expired", async () => {
      const id = await world.add({ queue: "times", maxRunMs: 5_000, startByMs: 3_600_000 });
      const page = await open(`/tasks/${id}`);
      const details = page.locator("section", { hasText: "Details" }).last();
      await expect.poll(() => details.innerText()).toMatch(/Must begin by\s+in 59 min/);
      expect(await details.innerText()).toMatch(/Runs at most\s+5\.0 s/);
      await (await world.claim("times", "worker-1")).putOff(600_000, "the bank is closed");
      await expect.poll(() => details.innerText()).toMatch(/Put off\s+1 time/);
      expect(await details.innerText()).not.toContain("Must begin by");
      await page.getByRole("list", { name: "Attempts" }).getByText("the bank is closed").waitFor();

      const late = await world.add({ queue: "late", startByMs: 1 });
      await expect.poll(() => world.state(late), { timeout: 20_000 }).toBe("expired");
      await page.goto(`${console.url}/tasks?state=expired`);
      await waitForCount(rows(page), 1);
      await page.goto(`${console.url}/tasks/${late}`);
      await page.getByText("No worker began it in time").waitFor();
    });

    it("can be retried, cancelled and deleted, each after a confirmation", async () => {
      const id = await world.add({ queue: "acts" });
      await (await world.claim("acts", "worker-1")).fail("broken");
      const page = await open(`/tasks/${id}`);
      const perform = async (name: string, becomes: string) => {
        await button(page, name).click();
        await dialog(page).getByLabel("Reason").fill(`because of ${name}`);
        await button(page, `${name} this task`).click();
        await dialog(page).waitFor({ state: "hidden" });
        if (becomes !== "")
          await expect.poll(() => world.state(id), { timeout: 20_000 }).toBe(becomes);
      };
      await perform("Retry", "pending");
      await page.getByRole("heading", { name: "Why isn’t this running?" }).waitFor();
      await perform("Cancel", "cancelled");
      await button(page, "Delete").click();
      await button(page, "Back").click();
      expect(await world.state(id)).toBe("cancelled");
      const before = console.complaints.length;
      await perform("Delete", "");
      await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
      await expect(world.state(id)).rejects.toThrow("404");
      const { items } = await world.ask("GET", `/v1/audit?target=${id}`);
      const reasons = items.map(({ reason }: { reason: string }) => reason);
      expect(new Set(reasons)).toEqual(
        new Set(["because of Retry", "because of Cancel", "because of Delete"]),
      );
      await page.goto(`${console.url}/tasks/${id}`);
      await page.getByText("Task not found").waitFor();
      forgiveComplaints(console, before, "404");
    });
  });

  it("starts the generator, changes its rate, stops it, and shows its holder", async () => {
    const { leases, tasks, backing } = console.stores;
    const env = systemEnv;
    const state = new GeneratorState(backing);
    await using leasehold = await connect(leases, { env, holder: "generator-7" });
    await using _generator = startGenerator({ leasehold, tasks, state, env, ttlMs: 2_000 });
    const page = await open("/tasks");
    const panel = page.getByRole("region", { name: "Generator" });
    await panel.getByText("stopped").waitFor();
    await page.getByLabel("per second").fill("50");
    await button(page, "Set rate").click();
    await expect
      .poll(async () => (await world.ask("GET", "/api/generator")).ratePerSecond)
      .toBe(50);
    await button(page, "Start").click();
    await panel.getByText("adds 50 tasks a second").waitFor();
    await panel.getByText("generator-7").waitFor();
    const { fencingToken } = await world.ask("GET", "/api/generator");
    await panel.getByTitle(`fencing token ${fencingToken}`).waitFor();
    await button(page, "Stop").click();
    await panel.getByText("stopped").waitFor();
    expect((await world.ask("GET", "/api/generator")).running).toBe(false);
  });

  it("shows a worker whose handlers do not end as stuck", async () => {
    const stuck = { processor: "loader-1", queues: ["stuck"], abandoned: 9 };
    await world.ask("POST", "/api/tasks/next", stuck);
    const page = await open("/workers?text=loader");
    const worker = page.getByRole("list", { name: "Workers" }).getByRole("listitem");
    await worker.getByText("stuck", { exact: true }).waitFor();
    await worker.getByText("9 handlers do not end: restart it").waitFor();
  });

  it("shows workers with their leases and claims", async () => {
    const id = await world.add({ queue: "workers" });
    await world.claim("workers", "packer-1");
    const page = await open("/workers?text=packer");
    const worker = page.getByRole("list", { name: "Workers" }).getByRole("listitem");
    await worker.getByText("packer-1").waitFor();
    expect(await worker.count()).toBe(1);
    await worker.getByText("queue workers; any kind").waitFor();
    await worker.getByTitle(`task:${id}`).click();
    await page.getByRole("heading", { name: "Details" }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/tasks/${id}`);
  });

  it.each(["light", "dark"] as const)("has no accessibility findings, %s", async (theme) => {
    const id = await world.add({ queue: `axe-${theme}`, kind: "look" });
    await (await world.claim(`axe-${theme}`, "worker-1")).fail("seen", { retryInMs: 3_600_000 });
    const paths = { [`/tasks?queue=axe-${theme}`]: "look", [`/tasks/${id}`]: "Details" };
    for (const [path, text] of Object.entries(paths)) {
      const page = await open(path, { theme });
      await page.getByText(text).first().waitFor();
      expect(await axe(page), path).toEqual([]);
      await page.setViewportSize(PHONE);
      expect(await axe(page), path).toEqual([]);
      expect(await overflows(page), path).toBe(false);
      await page.close();
    }
    const page = await open("/tasks?kind=look", { theme });
    await button(page, "Add task").click();
    await page.getByText("The data of the last task of this kind").waitFor();
    expect(await axe(page)).toEqual([]);
    await page.setViewportSize(PHONE);
    expect(await axe(page)).toEqual([]);
    expect(await overflows(page)).toBe(false);
  });

  it("shows an error of the server, and retries", async () => {
    await world.add({ queue: "away" });
    const page = await open("/tasks");
    await rows(page).first().waitFor();
    const before = console.complaints.length;
    await page.route("**/api/tasks?*", (route) => route.fulfill({ status: 503, body: "{}" }));
    await page.getByRole("searchbox", { name: "Queue" }).fill("away");
    const list = page.getByRole("region", { name: "Task list" });
    await button(page, "Try again").waitFor();
    await page.unroute("**/api/tasks?*");
    await list.getByRole("button", { name: "Try again" }).click();
    await waitForCount(rows(page), 1);
    forgiveComplaints(console, before, "503");
  });

  it("has logged no errors in the browser", () => {
    expect(console.complaints).toEqual([]);
  });
});

describeChromium("the console's tasks, for a viewer", () => {
  let console: Console;
  beforeAll(async () => {
    console = await openConsole({ auth: "keys" });
  });
  afterAll(() => console.close());

  it("offers no actions", async () => {
    const world = taskWorld(console.url, await newKey(console.stores, "admin"));
    const id = await world.add({ kind: "seen" });
    const page = await console.open("/tasks");
    await page.getByLabel("API key").fill(await newKey(console.stores, "viewer"));
    await page.getByRole("button", { name: "Sign in" }).click();
    const list = page.getByRole("list", { name: "Tasks" });
    await list.getByText("seen").waitFor();
    await page.getByRole("region", { name: "Generator" }).getByText("stopped").waitFor();
    const main = page.getByRole("main");
    expect(await main.getByRole("button").allTextContents()).toEqual([]);
    expect(await main.getByRole("checkbox").count()).toBe(0);
    await list.getByRole("link", { name: "seen" }).click();
    await page.getByRole("heading", { name: "Why isn’t this running?" }).waitFor();
    expect(await main.getByRole("button").allTextContents()).toEqual(["Copy id", "Copy input"]);
    expect(new URL(page.url()).pathname).toBe(`/tasks/${id}`);
  });
});

describeChromium("the console's tasks, where a kind has no worker", () => {
  let console: Console;
  beforeAll(async () => {
    // By this app's clock, an hour has passed since the store wrote its times.
    const { clock } = systemEnv;
    const later = { ...systemEnv, clock: { ...clock, wall: () => clock.wall() + 3_600_000 } };
    console = await openConsole({ env: later, stores: await memory().open(systemEnv) });
  });
  afterAll(() => console.close());

  it("names the kind and its queue until a worker takes one of the tasks", async () => {
    const world = taskWorld(console.url);
    await world.addMany(2, { queue: "mails", kind: "letter" });
    const page = await console.open("/tasks");
    const notices = page.getByRole("list", { name: "Kinds without a worker" });
    await notices
      .getByText("No live worker handles the kind letter of the queue mails: 2 tasks are due")
      .waitFor();
    expect(await axe(page)).toEqual([]);
    const workers = await console.open("/workers");
    await workers.getByRole("list", { name: "Kinds without a worker" }).waitFor();
    await world.claim("mails", "worker-1");
    await notices.waitFor({ state: "detached" });
    expect(console.complaints).toEqual([]);
  });
});

/** The simulator, driven like a user: scenarios, actions, links, shortcuts, experiments and quiz. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { consoleFiles } from "../../packages/leasehold-server/src/http/index.js";
import { describeChromium } from "../support/browser/chromium.js";
import {
  axe,
  type Console,
  loadedBy,
  newKey,
  openConsole,
  overflows,
  PHONE,
} from "../support/browser/console.js";

const MOST_LOAD_BYTES = 230_000;
const TTL_MS = 10_000;
const RENEW_EVERY_MS = 3_300;

/** Patient, for slow machines. */
function eventually<Value>(value: () => Value | Promise<Value>) {
  return expect.poll(value, { timeout: 30_000 });
}

/** Nothing plays by itself here: a test seeks the moments that it checks. */
class Simulator {
  constructor(readonly page: Page) {}

  get timeline(): Locator {
    return this.page.getByRole("slider", { name: "Timeline" });
  }
  get store(): Locator {
    return this.page.getByRole("region", { name: "Store" });
  }
  node(name: string): Locator {
    return this.page.getByRole("button", { name: new RegExp(`^${name}: `) });
  }
  async nodes(): Promise<string[]> {
    const names = ["P1", "P2", "P3", "P4", "P5"];
    const labels = names.map((name) => this.node(name).getAttribute("aria-label"));
    return (await Promise.all(labels)).map(String);
  }
  async atMs(): Promise<number> {
    return Number(await this.timeline.getAttribute("aria-valuenow"));
  }
  async play(scenario: string): Promise<void> {
    await this.page
      .getByRole("navigation", { name: "Scenarios" })
      .getByRole("button", { name: scenario })
      .click();
    await this.page.getByRole("heading", { level: 2, name: scenario }).waitFor();
  }
  /** Seeks a whole second, forward or back. */
  async goTo(seconds: number): Promise<void> {
    await this.timeline.press("Home");
    for (let tens = 0; tens < Math.floor(seconds / 10); tens++) await this.timeline.press("PageUp");
    for (let ones = 0; ones < seconds % 10; ones++) await this.timeline.press("ArrowRight");
    await eventually(() => this.atMs()).toBe(seconds * 1_000);
  }
  async choose(button: Locator, item: string): Promise<void> {
    await button.click();
    await this.page.getByRole("menuitem", { name: item }).first().click();
  }
  async counter(name: string): Promise<string> {
    const counters = this.page.getByRole("region", { name: "Counters" });
    const cell = counters.locator("> div").filter({ hasText: name });
    return (await cell.locator("> div").nth(1).textContent()) ?? "";
  }
  async failOverMs(): Promise<number> {
    const [value = "", unit = ""] = (await this.counter("Failover")).split(" ");
    return Number(value) * (unit === "s" ? 1_000 : 1);
  }
  async invariants(): Promise<string[]> {
    const badges = this.page.getByRole("region", { name: "Invariants" }).getByRole("button");
    const labels = await badges.evaluateAll((all) =>
      all.map((badge) => badge.getAttribute("aria-label") ?? ""),
    );
    return labels;
  }
  async lastMessages(): Promise<string> {
    return (await this.page.getByRole("log").textContent()) ?? "";
  }
  get actions(): string {
    return decodeURIComponent(new URL(this.page.url()).hash);
  }
}

describeChromium("the simulator in Chromium", () => {
  let console: Console;
  const opened: Page[] = [];
  beforeAll(async () => {
    console = await openConsole();
  });
  afterEach(async () => {
    for (const page of opened.splice(0)) await page.close();
    expect(console.complaints.splice(0)).toEqual([]);
  });
  afterAll(() => console.close());

  async function open(
    path = "/simulator",
    options: Parameters<Console["open"]>[1] = {},
  ): Promise<Simulator> {
    const page = await console.open(path, options);
    opened.push(page);
    await page.emulateMedia({ reducedMotion: "reduce", colorScheme: options.theme ?? "light" });
    await page.getByRole("region", { name: "Stage" }).waitFor();
    return new Simulator(page);
  }

  it("acquires and renews: token 1 stays, the others wait in the queue", async () => {
    const simulator = await open();
    expect(await simulator.store.textContent()).toContain("never held");
    await simulator.goTo(14);
    expect(await simulator.store.textContent()).toMatch(/P1.*1.*queue P3 P2 P4 P5/);
    expect(await simulator.nodes()).toEqual([
      "P1: leader, believes in token 1",
      "P2: 2nd in queue",
      "P3: 1st in queue",
      "P4: 3rd in queue",
      "P5: 4th in queue",
    ]);
    expect(await simulator.lastMessages()).toContain("P1 renewed its lease");
    expect(await simulator.counter("Refused writes")).toBe("0");
  });

  it("replaces a crashed leader when its lease has expired", async () => {
    const simulator = await open();
    await simulator.play("Leader crash");
    await simulator.goTo(9);
    expect(await simulator.node("P1").getAttribute("aria-label")).toBe("P1: crashed");
    expect(await simulator.store.textContent()).toMatch(/P1.*1/);
    await simulator.goTo(24);
    expect(await simulator.node("P3").getAttribute("aria-label")).toMatch(/leader.*token 2/);
    expect(await simulator.store.textContent()).toMatch(/P3.*2.*queue P2 P4 P5/);
    const failOverMs = await simulator.failOverMs();
    expect(failOverMs).toBeGreaterThan(1_000);
    expect(failOverMs).toBeLessThanOrEqual(TTL_MS + RENEW_EVERY_MS);
  });

  it("refuses the write of a leader that was paused too long: two believe, one may write", async () => {
    const simulator = await open();
    await simulator.play("GC pause and fence");
    await simulator.goTo(18);
    expect(await simulator.node("P1").getAttribute("aria-label")).toMatch(/paused.*token 1/);
    expect(await simulator.node("P3").getAttribute("aria-label")).toMatch(/leader.*token 2/);
    await simulator.goTo(29);
    expect(await simulator.counter("Refused writes")).toBe("1");
    expect(await simulator.counter("Stale writes accepted")).toBe("0");
    const writes = simulator.page.getByRole("list", { name: "Writes, oldest first" });
    await writes.getByText("P1, token 1, refused").waitFor({ state: "attached" });
    expect(await simulator.node("P1").getAttribute("aria-label")).toContain("in queue");
    for (const invariant of await simulator.invariants()) expect(invariant).toMatch(/: holds$/);
  });

  it("accepts the same write without fencing, and shows that this was not guaranteed", async () => {
    const simulator = await open();
    await simulator.play("Unfenced");
    await simulator.goTo(29);
    expect(await simulator.counter("Stale writes accepted")).toBe("1");
    expect(await simulator.invariants()).toContain(
      "No stale write: broken, but not guaranteed under these conditions",
    );
  });

  it("allows any action: a release hands over at once, a crashed candidate changes nothing", async () => {
    const simulator = await open();
    await simulator.play("Free play");
    await simulator.goTo(5);
    await simulator.choose(simulator.node("P5"), "Crash");
    await eventually(() => simulator.node("P5").getAttribute("aria-label")).toBe("P5: crashed");
    expect(simulator.actions).toContain("5000.crash.P5");
    const end = async (how: string) => {
      await simulator.store.getByRole("button", { name: how }).click();
      for (const _ of Array(3)) await simulator.timeline.press("ArrowRight");
    };
    await end("Release");
    await eventually(() => simulator.store.textContent()).toMatch(/^StoreP32queue/);
    await eventually(() => simulator.failOverMs()).toBeLessThan(1_000);
    await end("Expire");
    await eventually(() => simulator.store.textContent()).toMatch(/^StoreP[1-4]3queue/);
    await end("Revoke");
    await eventually(() => simulator.store.textContent()).toMatch(/^StoreP[1-4]4queue/);
  });

  it("applies settings to the whole run at its start, later as an action", async () => {
    const simulator = await open();
    await simulator.page.getByRole("tab", { name: "Tune" }).click();
    const ttl = simulator.page.getByRole("slider", { name: "Lease TTL" });
    await ttl.press("PageDown");
    await eventually(() => simulator.actions).toContain("ttlMs.");
    await simulator.goTo(6);
    const latency = simulator.page.getByRole("slider", { name: "Network latency" });
    await latency.press("ArrowRight");
    await eventually(() => simulator.actions).toContain("6000.set.latencyMs.");
    await simulator.page.getByRole("button", { name: "Undo my actions" }).click();
    await eventually(() => simulator.actions).not.toContain("set.latencyMs");
  });

  it("shares a run as a link that shows the same run", async () => {
    const simulator = await open();
    await simulator.page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await simulator.play("Free play");
    await simulator.goTo(7);
    await simulator.choose(simulator.node("P1"), "Cut off");
    await eventually(() => simulator.actions).toContain("cut.P1");
    await simulator.page.getByRole("button", { name: "Share" }).click();
    await simulator.page.getByText("Link copied").waitFor();
    const link = await simulator.page.evaluate<string>("navigator.clipboard.readText()");
    expect(link).toBe(simulator.page.url());
    await simulator.goTo(25);
    const other = await open(link.slice(console.url.length));
    await other.goTo(25);
    expect(await other.nodes()).toEqual(await simulator.nodes());
    expect(await other.lastMessages()).toBe(await simulator.lastMessages());
    expect(await other.counter("Store operations")).toBe(
      await simulator.counter("Store operations"),
    );
  });

  it("explains an invalid link, and shows the first scenario", async () => {
    const simulator = await open("/simulator#run=2-nonsense");
    await simulator.page.getByRole("alert").getByText("This link is not a valid run").waitFor();
    await simulator.page.getByRole("heading", { level: 2, name: "Acquire and renew" }).waitFor();
  });

  it("goes back in time, and forks at another action", async () => {
    const simulator = await open();
    await simulator.play("Free play");
    await simulator.goTo(10);
    await simulator.choose(simulator.node("P1"), "Crash");
    await simulator.goTo(30);
    const ended = await simulator.nodes();
    expect(ended[2]).toMatch(/leader.*token 2/);
    // Dragging back and forth does not change the run.
    const box = await simulator.timeline.boundingBox();
    if (!box) throw new Error("the timeline is not shown");
    await simulator.page.mouse.move(box.x + box.width / 2, box.y + 5);
    await simulator.page.mouse.down();
    await simulator.page.mouse.move(box.x + box.width * 0.05, box.y + 5, { steps: 5 });
    await eventually(() => simulator.node("P1").getAttribute("aria-label")).toContain("leader");
    await simulator.page.mouse.up();
    await simulator.goTo(30);
    expect(await simulator.nodes()).toEqual(ended);
    await simulator.goTo(5);
    await simulator.page.getByText("in the past").waitFor();
    await simulator.choose(simulator.node("P3"), "Crash");
    await eventually(() => simulator.actions).toContain("5000.crash.P3");
    expect(simulator.actions).not.toContain("crash.P1");
    await simulator.goTo(30);
    expect(await simulator.node("P1").getAttribute("aria-label")).toMatch(/leader.*token 1/);
    expect(await simulator.node("P3").getAttribute("aria-label")).toBe("P3: crashed");
  });

  it("works by keyboard alone: plays, steps, and changes a process and a message", async () => {
    const simulator = await open();
    const { page } = simulator;
    const focused = () => page.evaluate<string>("document.activeElement.ariaLabel ?? ''");
    const tabTo = async (name: RegExp) => {
      for (let presses = 0; presses < 60 && !name.test(await focused()); presses++) {
        await page.keyboard.press("Tab");
      }
      expect(await focused()).toMatch(name);
    };
    await page.keyboard.press("4");
    await page.getByRole("heading", { level: 2, name: "Free play" }).waitFor();
    await page.keyboard.press(".");
    await eventually(() => simulator.lastMessages()).toContain("acquired the lease with token 1");
    await page.keyboard.press(".");
    await eventually(() => simulator.lastMessages()).toContain("P1 leads with token 1");
    await page.keyboard.press(",");
    await eventually(() => simulator.lastMessages()).not.toContain("P1 leads");
    // The answer to P1 is in flight.
    await tabTo(/^granted for 10 s/);
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: /^Drop/ }).waitFor();
    await page.keyboard.press("Enter");
    await eventually(() => simulator.actions).toMatch(/\.drop\.\d/);
    await eventually(() => simulator.lastMessages()).toContain("was lost");
    // A focused button would handle the space key itself.
    await tabTo(/^Timeline/);
    await page.keyboard.press(" ");
    await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    const beganMs = await simulator.atMs();
    await eventually(() => simulator.atMs()).toBeGreaterThan(beganMs);
    await page.keyboard.press("ArrowRight");
    await page.getByRole("button", { name: "Play", exact: true }).waitFor();
    await page.keyboard.press("r");
    await eventually(() => simulator.atMs()).toBe(0);
    for (const _ of Array(4)) await page.keyboard.press("ArrowRight");
    await eventually(() => simulator.atMs()).toBe(4_000);
    await tabTo(/^P1: leader/);
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: /^Crash/ }).waitFor();
    await page.keyboard.press("Enter");
    await eventually(focused).toBe("P1: crashed");
    await page.keyboard.press("h");
    await page.getByRole("dialog", { name: "Keyboard shortcuts of the simulator" }).waitFor();
    await page.keyboard.press("Escape");
  });

  it("plays in real time, and stops at the end of the scenario", async () => {
    const simulator = await open();
    await simulator.page.emulateMedia({ reducedMotion: "no-preference" });
    await simulator.page.getByRole("checkbox", { name: "slow motion for messages" }).uncheck();
    await simulator.page.getByRole("combobox", { name: "Speed" }).selectOption("10");
    await simulator.play("Leader crash");
    await simulator.page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    await simulator.page.getByRole("button", { name: "Play", exact: true }).waitFor();
    expect(await simulator.node("P3").getAttribute("aria-label")).toMatch(/leader.*token 2/);
  });

  it("shows the full log, and goes to a moment that is chosen in it", async () => {
    const simulator = await open();
    await simulator.play("Leader crash");
    await simulator.goTo(24);
    await simulator.page.getByRole("button", { name: /^Full log/ }).click();
    const dialog = simulator.page.getByRole("dialog", { name: "Full log" });
    await dialog.getByRole("button", { name: "P1 leads with token 1" }).click();
    await eventually(() => simulator.lastMessages()).toContain("P1 leads with token 1");
    expect(await simulator.atMs()).toBeLessThan(1_000);
  });

  it("guides through experiments, and remembers the results", async () => {
    const simulator = await open();
    const { page } = simulator;
    await page.getByRole("button", { name: "A leader that pauses too long" }).click();
    const run = page.getByRole("button", { name: "Run experiment" });
    expect(await run.isDisabled()).toBe(true);
    await page.getByRole("radio", { name: /the resource refuses it/ }).check();
    await run.click();
    await page.getByRole("button", { name: "Skip to the end" }).click();
    await page.getByText("Correct.").waitFor();
    const progress = page.getByRole("progressbar", { name: "Experiments done" });
    expect(await progress.getAttribute("aria-valuenow")).toBe("1");
    await page.reload();
    await eventually(() => progress.getAttribute("aria-valuenow")).toBe("1");
  });

  it("asks questions, and explains the answers", async () => {
    const simulator = await open();
    const { page } = simulator;
    await page.getByRole("tab", { name: "Quiz" }).click();
    const panel = page.getByRole("tabpanel");
    await panel.getByRole("radio").first().check();
    await panel.getByRole("button", { name: "Check answer" }).click();
    await panel.getByText(/^[01] of 1 correct$/).waitFor();
    expect(await panel.getByRole("radio").first().isDisabled()).toBe(true);
    await panel.getByText("A crashed holder cannot release its lease").waitFor();
    await panel.getByRole("button", { name: "Next question" }).click();
    await panel.getByRole("radio", { name: /carry an old token/ }).check();
    await panel.getByRole("button", { name: "Check answer" }).click();
    await panel.getByText(/ of 2 correct$/).waitFor();
  });

  it("compares presets, and exports a run as a test", async () => {
    const simulator = await open();
    const { page } = simulator;
    await simulator.play("Leader crash");
    await page.getByRole("tab", { name: "Compare" }).click();
    await page.getByRole("button", { name: "Compare three presets" }).click();
    await page.getByRole("button", { name: "Remove Long TTL" }).waitFor();
    const row = page.getByRole("row", { name: /^Failover/ }).getByRole("cell");
    const seconds = (await row.allTextContents()).map((text) => Number.parseFloat(text));
    expect(seconds).toHaveLength(3);
    // A shorter TTL replaces a crashed leader sooner.
    expect(seconds).toEqual([...seconds].sort((a, b) => a - b));
    expect(await axe(page)).toEqual([]);
    await simulator.goTo(24);
    await page.getByRole("button", { name: "Export" }).click();
    const test = page.getByRole("region", { name: "Exported test" });
    expect(await test.textContent()).toMatch(/decodeScript\("1-crash-1.*token: 2, node: "P3"/s);
  });

  it.each(["light", "dark"] as const)(
    "fits a phone, without a finding of axe (%s)",
    async (theme) => {
      const simulator = await open("/simulator", { viewport: PHONE, theme });
      const { page } = simulator;
      await simulator.play("GC pause and fence");
      await simulator.goTo(18);
      for (const tab of ["Tune", "Compare", "Quiz", "Learn"]) {
        await page.getByRole("tab", { name: tab }).click();
        expect(await overflows(page), tab).toBe(false);
      }
      await simulator.node("P3").click();
      await page.getByRole("menuitem", { name: /^Crash/ }).waitFor();
      expect(await overflows(page)).toBe(false);
      expect(await axe(page)).toEqual([]);
      await page.keyboard.press("Escape");
    },
  );

  it.each(["light", "dark"] as const)("has no finding of axe (%s)", async (theme) => {
    const simulator = await open("/simulator", { theme });
    await simulator.play("Unfenced");
    await simulator.goTo(29);
    expect(await axe(simulator.page)).toEqual([]);
  });

  it("opens from the console, which needs a key, and by its address, which needs none", async () => {
    const guarded = await openConsole({ auth: "keys", basePath: "/lease" });
    try {
      const page = await guarded.open("/simulator");
      await page.getByRole("region", { name: "Stage" }).waitFor();
      await page.getByRole("link", { name: "Console" }).click();
      await page.getByLabel("API key").fill(await newKey(guarded.stores, "viewer"));
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
      expect(new URL(page.url()).pathname).toBe("/lease/");
      await page.getByRole("link", { name: "Leases" }).click();
      await page.getByRole("link", { name: "Simulator" }).click();
      await page.getByRole("region", { name: "Stage" }).waitFor();
      expect(new URL(page.url()).pathname).toBe("/lease/simulator");
    } finally {
      await guarded.close();
    }
  });

  it("loads little, as gzip", async () => {
    const { page } = await open();
    const { sizes, bytes } = await loadedBy(page);
    globalThis.console.info(`the simulator: ${bytes} bytes as gzip\n${sizes.join("\n")}`);
    expect(sizes.filter((size) => !/^\/assets\/(simulator|shared)\//.test(size))).toEqual([]);
    expect(sizes.length).toBeGreaterThan(2);
    expect(bytes).toBeLessThan(MOST_LOAD_BYTES);
  });

  it("is also a standalone page, at any path of any host", async () => {
    const files = await consoleFiles(
      new URL("../../packages/leasehold-server/dist/web/", import.meta.url),
    );
    const host = createServer((request, response) => {
      const { pathname } = new URL(request.url ?? "", "http://host");
      const file = files?.get(pathname.replace(/^\/some\/where\//, ""));
      if (!file) return response.writeHead(404).end();
      const policy = "default-src 'self'; base-uri 'self'";
      response.writeHead(200, { "content-type": file.type, "content-security-policy": policy });
      return response.end(file.body);
    });
    await new Promise<void>((resolve) => host.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = host.address() as AddressInfo;
      const address = `http://127.0.0.1:${port}/some/where/simulator.html`;
      const page = await console.open("/leases");
      opened.push(page);
      await page.goto(`${address}#run=1-crash-1--`);
      const simulator = new Simulator(page);
      await page.getByRole("heading", { level: 2, name: "Leader crash" }).waitFor();
      expect(await page.getByRole("link", { name: "Console" }).count()).toBe(0);
      await simulator.goTo(20);
      expect(await simulator.node("P3").getAttribute("aria-label")).toMatch(/leader.*token 2/);
    } finally {
      host.closeAllConnections();
      await new Promise((resolve) => host.close(resolve));
    }
  });
});

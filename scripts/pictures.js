// Takes the pictures of the README: runs the demo for a while, then captures its console in a browser.
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { argumentsOf } from "./support/arguments.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const HELP = `node scripts/pictures.js [--seconds 40 --out docs/images]`;
const { values } = argumentsOf(HELP, {
  options: {
    seconds: { type: "string", default: "40" },
    out: { type: "string", default: join(root, "docs", "images") },
  },
});

const CLOSE = "tenant_123:billing-close:2026-11";
/** @type {[name: string, path: (url: string) => Promise<string> | string, theme: "light" | "dark", prepare?: (page: import("playwright-core").Page) => Promise<void>][]} */
const PICTURES = [
  ["overview", () => "/", "light"],
  ["overview-dark", () => "/", "dark"],
  ["leases", () => "/leases", "light"],
  ["resource", () => `/leases/${encodeURIComponent(CLOSE)}`, "light"],
  ["tasks", () => "/tasks", "dark"],
  ["task", taskWithManyAttempts, "light"],
  ["simulator", () => "/simulator", "light", untilRefused],
  ["simulator-dark", () => "/simulator", "dark", untilRefused],
];

const folder = await mkdtemp(join(tmpdir(), "leasehold-pictures-"));
await mkdir(values.out, { recursive: true });
const demo = spawn(
  process.execPath,
  [join(root, "packages/leasehold-server/dist/cli/main.js"), "demo", "--plain"],
  {
    env: { ...process.env, PORT: "0", LEASEHOLD_STORE: `pglite:${join(folder, "data")}` },
    stdio: ["ignore", "pipe", "inherit"],
  },
);
const ended = new Promise((resolve) => demo.once("exit", resolve));
try {
  const url = await readyUrl(demo.stdout);
  process.stderr.write(`the demo runs at ${url}; pictures in ${values.seconds} s\n`);
  const stop = await populate(url);
  await sleep(Number(values.seconds) * 1_000);
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM_PATH ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu"],
  });
  try {
    for (const [name, pathOf, theme, prepare] of PICTURES) {
      const viewport = { width: 1280, height: 800 };
      const page = await browser.newPage({ viewport, colorScheme: theme, deviceScaleFactor: 1.5 });
      await page.goto(url + (await pathOf(url)));
      await page.getByRole("heading", { level: 1 }).waitFor();
      await sleep(3_000);
      await prepare?.(page);
      const path = join(values.out, `${name}.png`);
      await page.screenshot({ path });
      process.stderr.write(`${path}\n`);
      await page.close();
    }
  } finally {
    await browser.close();
    await stop();
  }
} finally {
  demo.kill("SIGINT");
  await ended;
  await rm(folder, { recursive: true, force: true });
}

async function readyUrl(stdout) {
  for await (const line of createInterface({ input: stdout })) {
    const [url] = /http:\/\/[\w.:[\]]+/.exec(line) ?? [];
    if (url) {
      stdout.resume();
      return url;
    }
  }
  throw new Error("the demo ended before it was ready");
}

async function asked(url, path) {
  const response = await fetch(url + path);
  if (!response.ok) throw new Error(`${path} answered ${response.status}`);
  return response.json();
}

/** The id of the task with the most attempts and crashes. */
async function handedOver(url) {
  const { items } = await asked(url, "/api/tasks?limit=200");
  const [most] = items.toSorted((a, b) => b.attempt + b.crashes - a.attempt - a.crashes);
  return most.id;
}

async function taskWithManyAttempts(url) {
  return `/tasks/${await handedOver(url)}`;
}

/** Acquires enough leases to fill the lists, and keeps one resource busy with handovers and expiries. */
async function populate(url) {
  const { connect } = await import("leasehold");
  const clients = await Promise.all(
    ["ann", "bob", "cid", "dee"].map((holder) => connect(url, { holder: `${holder}-7f3a` })),
  );
  const names = ["billing", "reports", "index", "mail", "search"];
  const held = [];
  for (let tenant = 101; tenant < 113; tenant++) {
    for (const [index, name] of names.entries()) {
      const client = clients[(tenant + index) % clients.length];
      const ttlMs = 20_000 + 5_000 * ((tenant * 7 + index) % 9);
      held.push(await client.acquire(`tenant_${tenant}:${name}`, { ttlMs }));
    }
  }
  const ending = new AbortController();
  for (const [index, client] of clients.entries()) {
    client.acquire(`tenant_10${index + 1}:billing`, { signal: ending.signal }).catch(() => {});
  }
  // All clients hold this resource one after the other: its history has every kind of end.
  const turns = (async () => {
    for (let turn = 0; !ending.signal.aborted; turn++) {
      const client = clients[turn % clients.length];
      const lease = await client.acquire(CLOSE, { ttlMs: 2_000, autoRenew: turn % 5 !== 2 });
      await sleep(turn % 5 === 2 ? 2_600 : 1_200 + 400 * (turn % 4));
      if (turn % 5 === 4) await client.revoke(CLOSE, { free: "now", reason: "the month is open" });
      else await lease.release();
      await sleep(turn % 3 === 1 ? 700 : 0);
    }
  })();
  return async () => {
    ending.abort();
    await turns.catch(() => {});
    await Promise.all(clients.map((client) => client.close()));
  };
}

/** Steps through the simulation until the resource refuses the paused holder's write. */
async function untilRefused(page) {
  await page.getByRole("button", { name: /GC pause and fence/i }).click();
  const refused = page.getByText(/refused P1's write/i);
  for (let step = 0; step < 30 && (await refused.count()) === 0; step++) {
    await page.keyboard.press(".");
    await sleep(700);
  }
  await sleep(500);
}

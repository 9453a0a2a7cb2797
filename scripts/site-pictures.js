// Takes pictures of the site of the documentation, to look at: some pages of each kind, wide and narrow, light and dark.
import { spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { argumentsOf } from "./support/arguments.js";

const docs = fileURLToPath(new URL("../docs", import.meta.url));
const HELP = `node scripts/site-pictures.js [--out FOLDER --only learn/fencing]    after npm run docs:build`;
const { values } = argumentsOf(HELP, {
  options: {
    out: { type: "string", default: join(tmpdir(), "leasehold-site-pictures") },
    only: { type: "string" },
  },
});

/** Tables, tabs, diagrams, long code, frames, forms and the reference: what may look wrong. */
const PAGES = [
  "",
  "start/first-lease",
  "learn/fencing",
  "learn/choosing-a-ttl",
  "choose/",
  "guides/web-framework",
  "guides/migrating",
  "guarantees",
  "http",
  "observability",
  "runbooks",
  "cli",
  "performance",
  "reference/api/leasehold/functions/connect",
];
const WIDTHS = { wide: 1280, narrow: 390 };
const THEMES = /** @type {const} */ (["light", "dark"]);
/** The tallest picture: a longer page shows its beginning. */
const TALLEST = 6_000;

await mkdir(values.out, { recursive: true });
const { server, url } = await preview();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu"],
});
try {
  const pages = values.only === undefined ? PAGES : [values.only];
  for (const path of pages) {
    for (const [size, width] of Object.entries(WIDTHS)) {
      for (const colorScheme of THEMES) {
        const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
        await page.goto(`${url}/${path}`, { waitUntil: "networkidle" });
        const full = await page.evaluate(() => document.documentElement.scrollHeight);
        const height = Math.min(full, TALLEST);
        const name = `${path.replaceAll("/", "-").replace(/-$/, "") || "home"}-${size}-${colorScheme}.png`;
        const file = join(values.out, name);
        await page.screenshot({ path: file, fullPage: true, clip: { x: 0, y: 0, width, height } });
        console.log(file);
        await page.close();
      }
    }
  }
} finally {
  await browser.close();
  server.kill();
}

/** Serves the built site at a free port. */
async function preview() {
  const port = await freePort();
  const server = spawn(
    process.execPath,
    [join(docs, "node_modules/vitepress/bin/vitepress.js"), "preview", "--port", `${port}`],
    { cwd: docs, stdio: ["ignore", "pipe", "inherit"] },
  );
  for await (const line of createInterface({ input: server.stdout })) {
    if (line.includes("served at")) return { server, url: `http://localhost:${port}` };
  }
  throw new Error("the site is not served: npm run docs:build");
}

/** @returns {Promise<number>} */
function freePort() {
  const probe = createServer();
  return new Promise((resolve) =>
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    }),
  );
}

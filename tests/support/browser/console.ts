/** The built console in a browser, before a server of this process. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { AxeResults, RunOptions } from "axe-core";
import type { Page } from "playwright-core";
import { createApiKey, type Role } from "../../../packages/leasehold/src/control/index.js";
import { type Env, systemEnv, systemRandom } from "../../../packages/leasehold/src/env/index.js";
import { memory } from "../../../packages/leasehold/src/stores/memory/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import {
  type AppOptions,
  consoleFiles,
  createApp,
  listen,
} from "../../../packages/leasehold-server/src/http/index.js";
import { checkFresh } from "../processes/cli.js";
import { TEST_LIMITS } from "../server/test-limits.js";
import { launchChromium } from "./chromium.js";

const BUILT = new URL("../../../packages/leasehold-server/dist/web/", import.meta.url);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDE = { width: 1400, height: 900 };
export const PHONE = { width: 390, height: 844 };

export interface Console {
  readonly url: string;
  readonly stores: Stores;
  /** What pages complained of: errors, warnings, violations of the content security policy. */
  readonly complaints: string[];
  /** A page of its own, at a path of the console. */
  open(path: string, options?: PageOptions): Promise<Page>;
  /** Of all pages: after each test, as a failed one leaves its page, and a browser has few connections for all. */
  closePages(): Promise<void>;
  close(): Promise<void>;
}

export interface PageOptions {
  readonly viewport?: { width: number; height: number };
  readonly theme?: "light" | "dark";
}

/** @param options for the app; `stores`: default in memory, closed with the console */
export async function openConsole(
  options: Partial<AppOptions> & { env?: Env; stores?: Stores } = {},
): Promise<Console> {
  for (const app of ["console", "simulator", "ui"]) {
    checkFresh(`apps/${app}/src`, fileURLToPath(new URL("index.html", BUILT)));
  }
  const files = await consoleFiles(BUILT);
  if (!files) throw new Error("the console is missing: npm run build");
  const { stores = await memory().open(systemEnv), ...appOptions } = options;
  const app = createApp({
    ...stores,
    auth: "ifAny",
    version: "1.2.3",
    limits: TEST_LIMITS,
    console: files,
    ...appOptions,
  });
  const server = await listen({ app, port: 0 });
  const url = `${server.url}${app.basePath ?? ""}`;
  const browser = await launchChromium();
  const complaints: string[] = [];
  return {
    url,
    stores,
    complaints,
    open: (path, pageOptions) => openPage(url + path, pageOptions),
    async closePages() {
      // The first one is the browser's own, and keeps it open.
      for (const page of browser.context.pages().slice(1)) await page.close();
    },
    async close() {
      await browser.close();
      await server.close();
      await stores.close();
    },
  };

  async function openPage(
    address: string,
    { viewport = WIDE, theme = "light" }: PageOptions = {},
  ): Promise<Page> {
    const page = await browser.context.newPage();
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme: theme });
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.goto(address);
    return page;
  }
}

/** The text of a new key of the tenant `default`. */
export async function newKey({ control }: Stores, role: Role): Promise<string> {
  if (!control) throw new Error("the store keeps no keys");
  const order = {
    namespace: "default",
    name: role,
    role,
    prefixes: role === "holder" ? [""] : [],
    lifetimeMs: null,
  };
  const by = { actor: "cli:test", reason: null };
  return (await createApiKey(control, systemRandom, order, by)).text;
}

/** The serious and critical findings of axe on the page, as readable lines. */
export async function axe(page: Page): Promise<string[]> {
  // Past the policy, which forbids scripts of others: this one is the test's.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: Axe }).axe.run({ resultTypes: ["violations"] }),
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary}`),
    );
}

interface Axe {
  run(options: RunOptions): Promise<AxeResults>;
}

/** The assets that the page has loaded, each with its size as gzip. */
export async function loadedBy(page: Page): Promise<{ sizes: string[]; bytes: number }> {
  const loaded = await page.evaluate<string[]>(
    "performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname)",
  );
  const files = await consoleFiles(BUILT);
  let bytes = 0;
  const sizes = loaded
    .filter((path) => path.startsWith("/assets/"))
    .map((path) => {
      const { body, type } = files?.get(path.slice(1)) ?? { body: new Uint8Array(), type: "" };
      const size = type.startsWith("font/") ? body.length : gzipSync(body).length;
      bytes += size;
      return `${path} ${size}`;
    });
  return { sizes, bytes };
}

/** Whether the page is wider than its window. */
export function overflows(page: Page): Promise<boolean> {
  return page.evaluate<boolean>(
    "document.documentElement.scrollWidth > document.documentElement.clientWidth",
  );
}

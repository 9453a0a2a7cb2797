/** Debian's Chromium, as tests drive it. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, chromium } from "playwright-core";
import { describe } from "vitest";

const CHROMIUM = process.env.CHROMIUM_PATH ?? "/usr/bin/chromium";
/** It stays away from the network, but for the page. */
const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** `describe` for tests that need the browser. They are skipped without it, but CI must have it. */
export function describeChromium(name: string, tests: () => void): void {
  if (existsSync(CHROMIUM)) {
    describe(name, tests);
    return;
  }
  const reason = `there is no ${CHROMIUM}; CHROMIUM_PATH names another`;
  if (process.env.CI === "true") throw new Error(`${reason}: install chromium`);
  console.info(`${name}: skipped, ${reason}`);
  describe.skip(`${name} (skipped: ${reason})`, tests);
}

export interface Browser {
  readonly context: BrowserContext;
  close(): Promise<void>;
}

/** With a profile of its own, so that nothing is left of it. */
export async function launchChromium(
  options: Parameters<typeof chromium.launchPersistentContext>[1] = {},
): Promise<Browser> {
  const profile = await mkdtemp(join(tmpdir(), "leasehold-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM,
    args: ARGUMENTS,
    ...options,
  });
  return {
    context,
    async close() {
      await context.close();
      await rm(profile, { recursive: true });
    },
  };
}

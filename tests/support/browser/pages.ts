/** Pages of a console that are closed after each test, also after one that failed. */
import type { Locator, Page } from "playwright-core";
import { afterEach, expect } from "vitest";
import type { Console, PageOptions } from "./console.js";

/** Of a machine with much else to do. */
const PATIENCE_MS = 60_000;

/** @param console asked for when a page is opened: what `beforeAll` has made */
export function openedPages(console: () => Console) {
  const pages: Page[] = [];
  // Each follows two streams, and a browser has six connections to a server.
  afterEach(async () => {
    for (const page of pages.splice(0)) await page.close();
  });
  return async (path: string, options?: PageOptions): Promise<Page> => {
    const page = await console().open(path, options);
    page.setDefaultTimeout(PATIENCE_MS);
    pages.push(page);
    return page;
  };
}

/** Until there are so many of it. */
export const waitForCount = (what: Locator, count: number): Promise<void> =>
  expect.poll(() => what.count(), { timeout: PATIENCE_MS }).toBe(count);

/** A button by its whole name. */
export const button = (page: Page, name: string): Locator =>
  page.getByRole("button", { name, exact: true });

/** Forgets what pages complained of since `before`, all of which must say `why`. */
export function forgiveComplaints({ complaints }: Console, before: number, why: string): void {
  for (const complaint of complaints.splice(before)) expect(complaint).toContain(why);
}

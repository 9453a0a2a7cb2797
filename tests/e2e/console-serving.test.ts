/** `leasehold serve` with the console and the simulator that were built, and without. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkBuild, checkFresh, endAll, serve } from "../support/processes/cli.js";

beforeAll(() => {
  checkBuild();
  for (const app of ["console", "simulator", "ui"]) {
    checkFresh(`apps/${app}/src`, "packages/leasehold-server/dist/web/index.html");
  }
});
afterAll(() => endAll());

const OPENED = { headers: { accept: "text/html" } };
/** First loads of people far away are to be quick. */
const PAGES = [
  { path: "/leases/some%2Fresource", base: "../", assets: /^\.\/assets\//, mostBytes: 150_000 },
  {
    path: "/simulator",
    base: "./",
    assets: /^\.\/assets\/(simulator|shared)\//,
    mostBytes: 180_000,
  },
];

function firstLine({ cli }: Awaited<ReturnType<typeof serve>>) {
  const lines = cli.err.map((line) => JSON.parse(line) as Record<string, string>);
  return lines.find(({ url }) => url !== undefined);
}

it("serves the console where its first line says", async () => {
  const serving = await serve();
  const { url } = serving;
  expect(firstLine(serving)).toMatchObject({ url, console: `${url}/` });
  expect(firstLine(serving)?.["msg"]).toBe(`listening on ${url}, console at ${url}/`);
  const overview = (await (await fetch(`${url}/v1/overview`)).json()) as { engine: object };
  expect(overview.engine).toMatchObject({ name: "memory" });
});

it.each(PAGES)("serves $path, and all that it asks for", async (expected) => {
  const { url } = await serve();
  const page = await fetch(url + expected.path, OPENED);
  expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
  const html = await page.text();
  expect(html).toContain(`<base href="${expected.base}" `);
  // The policy names the hash of one that finds the base, and forbids all others.
  expect(html.match(/<script(?![^>]*\bsrc=)/g)).toHaveLength(1);
  expect(html, "inline styles are forbidden").not.toMatch(/<style|\sstyle=/);
  const links = [...html.matchAll(/(?:src|href)="(\.\/[^"]+)"/g)].map(([, path]) => path ?? "");
  const assets = links.filter((path) => expected.assets.test(path));
  expect(links.filter((path) => !assets.includes(path))).toEqual(["./favicon.svg"]);
  expect(assets.length).toBeGreaterThanOrEqual(2);
  let bytes = html.length;
  for (const path of links) {
    const file = await fetch(new URL(path, `${url}/`));
    expect(file.status, path).toBe(200);
    bytes += Number(file.headers.get("content-length"));
    await file.arrayBuffer();
  }
  expect(bytes).toBeGreaterThan(10_000);
  expect(bytes).toBeLessThan(expected.mostBytes);
});

it("serves only the API with --no-console", async () => {
  const serving = await serve("memory:test", ["--no-console"]);
  expect(firstLine(serving)).not.toHaveProperty("console");
  const { status, headers } = await fetch(serving.url, OPENED);
  expect([status, headers.get("content-type")]).toEqual([404, "application/problem+json"]);
});

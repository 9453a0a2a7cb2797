import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { gunzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import { type ConsoleFiles, consoleFiles } from "../index.js";

const PAGE = '<!doctype html><html><head lang="en"><title>x</title></head><body></body></html>';
const SCRIPT = `console.log(${JSON.stringify("x".repeat(1_000))});`;

/** Files like those of a build. */
async function built(files: Readonly<Record<string, string>>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "console-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  await mkdir(join(directory, "assets"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  return directory;
}

async function open(basePath = "") {
  const files = await consoleFiles(
    await built({
      "index.html": PAGE,
      "simulator.html": PAGE.replace("<title>x", "<title>simulator"),
      "assets/main-1a2b3c.js": SCRIPT,
      "favicon.svg": "<svg/>",
    }),
  );
  const { app } = await openTestApp({ console: files, basePath });
  return (path: string, headers: Record<string, string> = {}, method = "GET") =>
    app.fetch(new Request(`http://localhost${path}`, { method, headers }));
}

const OPENED = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

describe("the console's files", () => {
  test("are public, with a policy that allows no other sources", async () => {
    const get = await open();
    const script = await get("/assets/main-1a2b3c.js");
    expect(script.status).toBe(200);
    expect(await script.text()).toBe(SCRIPT);
    expect(Object.fromEntries(script.headers)).toMatchObject({
      "content-type": "text/javascript; charset=utf-8",
      "cache-control": "public, max-age=31536000, immutable",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      vary: "accept-encoding",
    });
    const policy = script.headers.get("content-security-policy");
    expect(policy).toContain("default-src 'none'; script-src 'self' 'sha256-");
    expect(policy).toContain("'; style-src 'self'; ");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain("unsafe");

    const packed = await get("/assets/main-1a2b3c.js", { "accept-encoding": "br, gzip;q=0.5" });
    expect(packed.headers.get("content-encoding")).toBe("gzip");
    expect(gunzipSync(await packed.arrayBuffer()).toString()).toBe(SCRIPT);
    const plain = await get("/assets/main-1a2b3c.js", { "accept-encoding": "gzip;q=0, br" });
    expect(plain.headers.get("content-encoding")).toBeNull();
  });

  test("are a page at any path that a browser opens, with a base that leads to the root", async () => {
    const get = await open();
    for (const [path, root] of [
      ["/", "./"],
      ["/simulator", "./"],
      ["/leases/billing%2Finvoices", "../"],
      ["/tasks/1/attempts?tab=2", "../../"],
      ["/v1beta/not-the-api", "../"],
    ] as const) {
      const page = await get(path, OPENED);
      expect(page.status, path).toBe(200);
      expect(await page.text(), path).toContain(`<head lang="en"><base href="${root}" `);
      expect(page.headers.get("cache-control")).toBe("no-cache");
      expect(page.headers.get("content-security-policy")).toContain("base-uri 'self'");
      const etag = page.headers.get("etag") ?? "";
      expect(etag, "weak: also of what is compressed").toMatch(/^W\/"/);
      for (const known of [etag, etag.slice(2)]) {
        const again = await get(path, { ...OPENED, "if-none-match": `"other" ,${known} ` });
        expect([again.status, await again.text()], path).toEqual([304, ""]);
        expect(again.headers.get("vary")).toBe("accept-encoding");
      }
    }
    const [one, two] = await Promise.all([get("/a", OPENED), get("/a/b", OPENED)]);
    expect(one.headers.get("etag")).not.toBe(two.headers.get("etag"));
    expect((await get("/")).status, "whatever is accepted").toBe(200);
    expect(await (await get("/", OPENED, "HEAD")).text()).toBe("");
  });

  test("are the simulator's page at its path, and the console's at others", async () => {
    const get = await open("/lease");
    const title = async (path: string) =>
      /<title>(.*)<\/title>/.exec(await (await get(`/lease${path}`, OPENED)).text())?.[1];
    for (const path of ["/simulator", "/simulator/", "/simulator?embedded", "/simulator.html"]) {
      expect(await title(path), path).toBe("simulator");
    }
    for (const path of ["/", "/simulator/x", "/simulators", "/leases/simulator"]) {
      expect(await title(path), path).toBe("x");
    }
    const simulator = await get("/lease/simulator", OPENED);
    expect(await simulator.text()).toContain('<base href="./" data-path="/simulator">');
    expect((await get("/lease/simulator", { accept: "application/json" })).status).toBe(404);
  });

  test("run one inline script, which the policy names by its hash, at a path that is escaped", async () => {
    const get = await open();
    const page = await get('/leases/"><script>alert(1)</script>', OPENED);
    const html = await page.text();
    expect(html).toContain('data-path="/leases/&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"');
    const scripts = [...html.matchAll(/<script>(.*?)<\/script>/gs)].map(([, text = ""]) => text);
    expect(scripts).toHaveLength(1);
    const hash = createHash("sha256")
      .update(scripts[0] ?? "")
      .digest("base64");
    const policy = page.headers.get("content-security-policy");
    expect(policy).toContain(`script-src 'self' 'sha256-${hash}';`);
  });

  test.each([
    ["/leases/billing%2Fe", "/leases/billing%2Fe", "/"],
    ["/lease/leases/billing%2Fe", "/leases/billing/e", "/lease/"],
    ["/lease/leases/a%2F%2Fb%20c", "/leases/a/b%20c", "/lease/"],
    ["/leases/leases/leases%2Fe", "/leases/leases/e", "/leases/"],
    ["/lease/", "/", "/lease/"],
    ["/rewritten/leases/x", "/other", null],
    ["/lease/leases/%E0%A4%A", "/leases/x", null],
  ])("have a base that fits the browser's %s, which reaches the server as %s", async (...args) => {
    const [pathname, path, expected] = args;
    const get = await open();
    const html = await (await get(path, OPENED)).text();
    const [, script = ""] = /<script>(.*?)<\/script>/s.exec(html) ?? [];
    const base = { href: null, dataset: { path } };
    const document = { querySelector: () => base };
    runInNewContext(script, { document, location: { pathname } });
    expect(base.href).toBe(expected);
  });

  test("are matched in time linear in the request", async () => {
    const get = await open();
    const cpuMs = async (blanks: number) => {
      const header = `"a"${" ".repeat(blanks)}b`;
      const before = process.cpuUsage();
      await get("/", { ...OPENED, "if-none-match": header, "accept-encoding": header });
      const { user } = process.cpuUsage(before);
      return user / 1_000;
    };
    await cpuMs(1);
    // A quadratic search from each blank would take minutes.
    expect(await cpuMs(200_000)).toBeLessThan(10_000);
  });

  test("never replace the API", async () => {
    const get = await open();
    for (const path of ["/v1/nothing", "/api/nothing", "/api", "/v1/leases/nothing"]) {
      const answer = await get(path, OPENED);
      expect([answer.status, answer.headers.get("content-type")], path).toEqual([
        404,
        "application/problem+json",
      ]);
    }
    expect((await get("/healthz", OPENED)).headers.get("content-type")).toBe("application/json");
    expect((await get("/openapi.json", OPENED)).headers.get("content-type")).toContain("json");
    const missing = await get("/assets/main-0000.js", OPENED);
    expect(missing.status).toBe(404);
    expect(await missing.json()).toMatchObject({ code: "UNKNOWN_ROUTE" });
    expect((await get("/nothing.png", { accept: "image/*" })).status).toBe(404);
    expect((await get("/", OPENED, "POST")).status).toBe(404);
    expect((await get("/assets/../index.html/x", { accept: "*/*" })).status).toBe(404);
  });

  test("are served below a base, and the base itself redirects to them", async () => {
    const get = await open("/lease");
    const page = await get("/lease/leases/x", OPENED);
    expect(await page.text()).toContain('<base href="../" data-path="/leases/x">');
    expect((await get("/lease/favicon.svg")).headers.get("content-type")).toBe("image/svg+xml");
    const redirected = await get("/lease", OPENED);
    expect([redirected.status, redirected.headers.get("location")]).toEqual([308, "/lease/"]);
    expect((await get("/other", OPENED)).status).toBe(404);
    expect((await get("/other/lease/", OPENED)).status).toBe(404);
  });

  test("are absent if none were built, and the app works without them", async () => {
    expect(await consoleFiles(join(tmpdir(), "no-such-directory"))).toBeNull();
    expect(await consoleFiles(await built({ "assets/main.js": SCRIPT }))).toBeNull();
    const { app } = await openTestApp({ console: null });
    expect((await app.fetch(new Request("http://localhost/", { headers: OPENED }))).status).toBe(
      404,
    );
  });

  test("keep their bytes", async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const files: ConsoleFiles = new Map([
      ["index.html", { body: new TextEncoder().encode(PAGE), type: "text/html" }],
      ["icon.png", { body: bytes, type: "image/png" }],
    ]);
    const { app } = await openTestApp({ console: files });
    const icon = await app.fetch(new Request("http://localhost/icon.png"));
    expect(new Uint8Array(await icon.arrayBuffer())).toEqual(bytes);
  });
});

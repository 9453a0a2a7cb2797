/** The console behind nginx with a path prefix, which passes paths on decoded or as they are. */

import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { BrowserContext } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { describeChromium, launchChromium } from "../support/browser/chromium.js";
import { freePort } from "../support/engines/free-port.js";
import { endAll, serve } from "../support/processes/cli.js";
import { Child, temporaryFolder } from "../support/processes/processes.js";

const hasNginx = (() => {
  try {
    execFileSync("nginx", ["-v"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();

/** nginx in front of the server: /decoded/ and /exact/. */
async function startNginx(url: string): Promise<string> {
  const [folder, port] = [await temporaryFolder(), await freePort()];
  const temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${join(folder, name)};`)
    .join(" ");
  const configuration = `
daemon off; master_process off; pid ${join(folder, "pid")}; error_log stderr;
events {}
http {
  access_log off; ${temp}
  server {
    listen 127.0.0.1:${port};
    location /decoded/ { proxy_pass ${url}/; }
    location /exact/ { rewrite ^ $request_uri; rewrite ^/exact(/.*) $1 break; proxy_pass ${url}$uri; }
  }
}`;
  const file = join(folder, "nginx.conf");
  await writeFile(file, configuration);
  const nginx = new Child("nginx", ["-p", folder, "-c", file, "-e", "stderr"]);
  const address = `http://127.0.0.1:${port}`;
  for (;;) {
    const isUp = await fetch(address).then(
      () => true,
      () => false,
    );
    if (isUp) return address;
    const ended = await Promise.race([
      nginx.ended,
      new Promise((resolve) => setTimeout(resolve, 20)),
    ]);
    if (ended !== undefined) throw new Error(`nginx ended: ${nginx.err.join("\n")}`);
  }
}

if (hasNginx) describeChromium("the console behind nginx", exercise);
else describe.skip("the console behind nginx (skipped: nginx is not installed)", exercise);

function exercise() {
  let proxy: string;
  let browser: BrowserContext;
  let close: () => Promise<unknown>;
  beforeAll(async () => {
    const { url } = await serve();
    const client = await connect(url, { holder: "web-3" });
    await client.acquire("billing/e", { ttlMs: 600_000 });
    proxy = await startNginx(url);
    const chromium = await launchChromium();
    browser = chromium.context;
    close = () => Promise.all([chromium.close(), client.close()]);
  });
  afterAll(async () => {
    await close();
    await endAll();
  });

  it.each(["decoded", "exact"])("opens a resource with a slash in its name: %s", async (prefix) => {
    const page = await browser.newPage();
    await page.goto(`${proxy}/${prefix}/leases/billing%2Fe`);
    await page.getByRole("heading", { name: "billing/e" }).waitFor();
    await page.getByText("web-3").first().waitFor();
    expect(await page.evaluate("document.baseURI")).toBe(`${proxy}/${prefix}/`);
    await page.close();
  });
}

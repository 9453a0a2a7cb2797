/** workerd, the runtime of Cloudflare's workers. */
import { existsSync } from "node:fs";
import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Child } from "../support/processes/processes.js";
import { bundle } from "./bundlers.js";
import { run } from "./program.js";
import type { Row } from "./row.js";
import { MODULES, type Site } from "./site.js";

const WORKERD = join(MODULES, "@cloudflare/workerd-linux-64/bin/workerd");

const missing = () =>
  existsSync(WORKERD)
    ? null
    : `no workerd for ${process.platform}-${process.arch} in tests/runtimes`;

export const WORKER_ROWS: readonly Row[] = [
  {
    name: "workerd: HTTP store",
    tries: "a lease and a task by leasehold/stores/http, within one request",
    quick: true,
    missing,
    async run(site) {
      const { url } = await startWorker(site);
      const response = await fetch(`${url}/client?url=${encodeURIComponent(await site.server())}`);
      const text = await response.text();
      if (text !== "works") throw new Error(text);
    },
  },
  {
    name: "workerd: server",
    tries: "createApp in a Durable Object, for clients outside",
    quick: true,
    missing,
    async run(site) {
      const { url } = await startWorker(site);
      await run(process.execPath, ["programs/store.mjs", url], { cwd: await site.full() });
    },
  },
];

async function startWorker(site: Site): Promise<{ url: string }> {
  const project = await site.full();
  const folder = join(project, "worker");
  await mkdir(folder, { recursive: true });
  const config = join(folder, "workerd.capnp");
  await copyFile(join(project, "programs/workerd.capnp"), config);
  await copyFile(
    await bundle("esbuild", project, "worker", { platform: "worker" }),
    join(folder, "worker.js"),
  );
  const child = new Child(WORKERD, ["serve", config, "--control-fd=1"]);
  const port = await child.until(({ out }) =>
    out.map((line) => (JSON.parse(line) as { port?: number }).port).find(Boolean),
  );
  return { url: `http://127.0.0.1:${port}` };
}

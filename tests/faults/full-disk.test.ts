/** A server with an embedded database whose log cannot grow, because the disk is full. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { freshPglite } from "../support/engines/pglite.js";
import { Cli, endAll } from "../support/processes/cli.js";
import { temporaryFolder } from "../support/processes/processes.js";

afterEach(() => endAll());

it("says so and ends, rather than hang", { timeout: 60_000 }, async () => {
  const folder = await temporaryFolder();
  const full = join(folder, "full");
  const { directory, remove } = await freshPglite();
  try {
    const preload = new URL("../support/processes/full-disk.js", import.meta.url).href;
    const env = { NODE_OPTIONS: `--import ${preload}`, FULL_DISK: full };
    const server = new Cli(["serve", "--port", "0", "--store", `pglite:${directory}`], { env });
    const url = await server.until(({ err }) =>
      err.map((line) => (JSON.parse(line) as { url?: string }).url).find(Boolean),
    );
    const add = () => {
      const task_data = Array.from({ length: 9_000 }, () => Math.random());
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify({ task_data });
      return fetch(`${url}/api/tasks`, { method: "POST", headers, body });
    };
    expect((await add()).status).toBe(201);
    await writeFile(full, "");
    // The log has 16 MB, which are used up after a while.
    let status = 201;
    while (status === 201)
      status = await add().then(
        (answer) => answer.status,
        () => 0,
      );
    expect((await server.ended).code).toBe(78);
    const lines = server.err.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
    expect(lines).toContainEqual(
      expect.objectContaining({
        event: "store_stopped",
        level: 50,
        msg: expect.stringContaining("make sure that the disk has space"),
      }),
    );
    // It can be opened again as soon as there is space.
    const again = new Cli(["tasks", "--store", `pglite:${directory}`, "--limit", "1"]);
    expect((await again.ended).code).toBe(0);
  } finally {
    await remove();
  }
});

import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { blockedPort, checkFetchPorts } from "./blocked-ports.js";

test("names exactly the ports that fetch refuses before it connects", async () => {
  const constants = createRequire(import.meta.url)("undici/lib/web/fetch/constants.js") as {
    readonly badPortsSet: ReadonlySet<string>;
  };
  for (let port = 0; port <= 65_535; port += 1) {
    const isBlocked = blockedPort(port) !== undefined;
    if (isBlocked !== constants.badPortsSet.has(`${port}`)) expect.fail(`port ${port}`);
  }
  for (const port of [1, 6000, 10_080]) {
    const error = await fetch(`http://127.0.0.1:${port}/`).catch((thrown: unknown) => thrown);
    expect([port, ((error as Error).cause as Error).message]).toEqual([port, "bad port"]);
  }
});

test("names the port of the URL that has one, and what to do", () => {
  expect(() => checkFetchPorts("url", ["http://a:4040", "http://b:6000/base"])).toThrow(
    "url cannot be reached: port 6000 is blocked by fetch",
  );
  checkFetchPorts("url", ["https://a", "http://a", "http://[::1]:4040"]);
});

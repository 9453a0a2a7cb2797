/** What commands say while they connect for the first time, and how a signal ends them then. */

import { once } from "node:events";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { freePort } from "../support/engines/free-port.js";
import { Cli, checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

const HANDLERS = fileURLToPath(new URL("../support/processes/cli-handlers.js", import.meta.url));
const DEAD = "http://127.0.0.1:2";

beforeAll(() => checkBuild());
afterEach(() => endAll());

const isRetrying = ({ err }: Pick<Cli, "err">) => err.find((line) => line.includes("retrying"));

describe("SIGTERM", () => {
  it.each([
    ["worker", "--handlers", HANDLERS, "--store", DEAD],
    ["generate", "run", "--store", DEAD],
    ["watch", "--store", DEAD],
    ["elect", "n", "--store", DEAD],
    ["elect", "n", "--observe", "--store", DEAD],
  ])("ends %s %s with 0 while it connects", async (...args) => {
    const cli = new Cli(args);
    await cli.until(isRetrying);
    expect((await cli.end("SIGTERM")).code).toBe(0);
  });

  it.each([["serve"], ["demo", "--plain"]])("ends %s with 0, too", async (...args) => {
    // It accepts connections and never answers.
    const server = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const { port } = server.address() as { port: number };
    const cli = new Cli([...args, "--port", "0", "--store", `postgres://127.0.0.1:${port}/none`]);
    await cli.until(isRetrying);
    expect((await cli.end("SIGTERM")).code).toBe(0);
  });

  it("ends a candidate with a command by the code of the signal", async () => {
    const cli = new Cli(["elect", "n", "--store", DEAD, "--", "true"]);
    await cli.until(isRetrying);
    expect((await cli.end("SIGTERM")).code).toBe(143);
  });
});

describe("a store that answers later", () => {
  it("is reported by commands that wait and by those that do not", async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const start = (...args: string[]) => new Cli([...args, "--store", url]);
    const texts = [
      start("elect", "n", "--holder", "a"),
      start("elect", "n", "--observe"),
      start("watch"),
      start("acquire", "r"),
      start("ls"),
    ];
    const json = [
      start("elect", "n", "--observe", "--json"),
      start("watch", "--json"),
      start("acquire", "s", "--json"),
    ];
    for (const cli of [...texts, ...json]) await cli.until(isRetrying);
    new Cli(["serve", "--port", String(port), "--store", "memory:later"]);
    for (const cli of texts)
      await cli.until(({ err }) => err.includes(`leasehold: connected to ${url}`));
    for (const cli of json) {
      await cli.until(({ err }) => err.length === 2);
      expect(cli.err.map((line) => JSON.parse(line) as object)).toMatchObject([
        { event: "retrying", until: expect.any(String) },
        { event: "answering", message: `connected to ${url}` },
      ]);
    }
  });

  it("is waited for by watch, even if it refuses connections at once", async () => {
    const cli = new Cli(["watch", "--json", "--store", "redis://127.0.0.1:1"]);
    const line = await cli.until(({ err }) => err[0]);
    expect(JSON.parse(line)).toMatchObject({ event: "retrying", until: expect.any(String) });
    expect((await cli.end("SIGTERM")).code).toBe(0);
  });
});

it.each([
  ["serve", "--port", "0"],
  ["worker", "--handlers", HANDLERS],
  ["generate", "run"],
])("%s waits for a database that refuses connections at once", async (...args) => {
  const cli = new Cli([...args, "--store", "postgres://127.0.0.1:1/none"]);
  expect(await cli.until(isRetrying)).toContain("ECONNREFUSED");
  expect((await cli.end("SIGTERM")).code).toBe(0);
});

it("an acquire without a wait at a limit of the tenant announces no retry", async () => {
  const { url } = await serve("memory:limit", ["--limits", "leases=1"]);
  const env = { LEASEHOLD_STORE: url };
  expect((await leasehold(["acquire", "a"], { env })).code).toBe(0);
  const { code, stderr } = await leasehold(["acquire", "b"], { env });
  expect(code).toBe(69);
  expect(stderr).toContain("at most 1 leases at once");
  expect(stderr).not.toContain("retrying");
});

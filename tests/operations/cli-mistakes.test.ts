/** Mistakes on the command line that once passed in silence, by real processes. */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freshPglite } from "../support/engines/pglite.js";
import {
  Cli,
  checkBuild,
  endAll,
  leasehold,
  type Serving,
  serve,
} from "../support/processes/cli.js";

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterAll(() => endAll());

const run = (...args: readonly string[]) => leasehold([...args, "--store", server.url]);

it.each([
  ["revoke", "r"],
  ["pause", "r"],
  ["resume", "r"],
])("%s refuses a blank --reason", async (...args) => {
  for (const reason of ["", " \t"]) {
    const { code, stderr } = await run(...args, "--reason", reason);
    expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringContaining("not be blank") });
  }
});

it("says who has paused a resource and why, and ends with the code of -E", async () => {
  // A server without keys knows its callers as this.
  const actor = "anyone";
  await run("pause", "paused-1", "--reason", "migration");
  const why = expect.stringContaining(`"paused-1" is paused by ${actor}: migration; gave up`);
  expect(await run("acquire", "paused-1")).toMatchObject({ code: 75, stderr: why });
  expect(await run("acquire", "paused-1", "-E", "7")).toMatchObject({ code: 7, stderr: why });
  const running = ["run", "paused-1", "--wait", "0", "--store", server.url, "--", "true"];
  expect(await leasehold(running)).toMatchObject({ code: 75, stderr: why });
});

it.each([
  ["pglite:~/locks", 64, "must not begin with ~, which only a shell expands"],
  ["valkey://me:secret@localhost", 64, "--store must begin with one of"],
  [`"postgres://me:secret@localhost/app"`, 64, "it begins with a quote"],
  ["postgres://me:secret@localhost/app?sslmode=verify-ful", 64, "?sslmode must be"],
  ["redis:host", 78, "write redis://user:password@host:port"],
])("refuses --store %s", async (store, code, problem) => {
  const refused = await leasehold(["acquire", "r", "--store", store]);
  expect(refused).toMatchObject({ code, stderr: expect.stringContaining(problem) as string });
  expect(refused.stderr).not.toContain("secret");
  expect(existsSync("~")).toBe(false);
});

it("enqueue refuses - as the kind of a task", async () => {
  const { code, stderr } = await run("enqueue", "-", "1");
  expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringContaining("kind must be") });
});

it.each([
  [["acquire", "caf\ufffd"], "an argument"],
  [["acquire", "r", "--holder", "h\ufffd"], "holder"],
  [["enqueue", "kind\ufffd", "1"], "an argument"],
  [["ls", "--namespace", "n\ufffd"], "namespace"],
])("%j is refused: node replaces bytes that are not UTF-8", async (args, what) => {
  const { code, stderr } = await run(...args);
  const problem = expect.stringContaining(`${what} is not UTF-8, or contains U+FFFD`);
  expect({ code, stderr }).toEqual({ code: 64, stderr: problem });
});

it("enqueue refuses a line of stdin that is not UTF-8, naming it", async () => {
  const lines = Buffer.from('"caf\u00e9 \u2028"\n"caf\u00e9"\n');
  const input = Buffer.concat([lines, Buffer.from('"caf\u00e9"\n', "latin1")]);
  const { code, stderr } = await leasehold(["enqueue", "k", "-", "--store", server.url], { input });
  expect({ code, stderr }).toEqual({
    code: 64,
    stderr: expect.stringContaining("line 3 is not JSON: it is not UTF-8"),
  });
  const good = lines.subarray(0, -1);
  const added = await leasehold(["enqueue", "k", "-", "--store", server.url], { input: good });
  expect(added).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\S+\n\S+$/) });
});

it("serve refuses a longest TTL below the shortest", async () => {
  for (const limits of ["shortestTtlMs=5000,longestTtlMs=10", "longestTtlMs=10"]) {
    const { code, stderr } = await leasehold(["serve", "--store", "memory:", "--limits", limits]);
    const problem = expect.stringContaining("longestTtlMs must be at least shortestTtlMs");
    expect({ code, stderr }).toEqual({ code: 64, stderr: problem });
  }
});

it("audit list refuses an unknown --action, naming the known ones", async () => {
  const { code, stderr } = await run("audit", "list", "--action", "lease.revok");
  expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringContaining("lease.revoke,") });
});

it("a key is refused by a server that has none", async () => {
  const env = { LEASEHOLD_KEY: `lh_${"0".repeat(12)}_${"0".repeat(32)}` };
  const { code, stderr } = await leasehold(["ls", "--store", server.url], { env });
  expect(code).not.toBe(0);
  expect(stderr).toContain("this server requires no API key");
});

it("limits show reads them from a server", async () => {
  const { code, stdout } = await run("limits", "show", "--json");
  const none = { leases: null, tasks: null, ratePerSecond: null };
  expect({ code, limits: JSON.parse(stdout || "null") as unknown }).toEqual({
    code: 0,
    limits: { namespace: "default", ...none },
  });
});

it("limits set says that nothing is in a namespace", { timeout: 120_000 }, async () => {
  const { directory } = await freshPglite();
  const store = ["--store", `pglite:${directory}`];
  const set = ["limits", "set", "--leases", "5", "--reason", "r", ...store, "--namespace"];
  const unknown = 'no API key, lease or task is in namespace "shop" yet';
  expect(await leasehold([...set, "shop"])).toMatchObject({
    code: 0,
    stderr: expect.stringContaining(unknown),
  });
  await leasehold(["enqueue", "mail", ...store, "--namespace", "shop"]);
  expect(await leasehold([...set, "shop"])).toMatchObject({ code: 0, stderr: "" });
  await rm(directory, { recursive: true });
});

it("names the variable that is empty", async () => {
  for (const [name, remedy] of [
    ["LEASEHOLD_STORE", "no store: pass --store URL"],
    ["LEASEHOLD_CONTROL", "name a store, or leave it out (unset the variable)"],
    ["LEASEHOLD_KEY", "set it to an API key of the server, or unset it"],
  ] as const) {
    const env = { LEASEHOLD_STORE: server.url, [name]: "" };
    const { code, stderr } = await leasehold(["tasks"], { env });
    expect({ code, stderr }).toEqual({
      code: 64,
      stderr: expect.stringContaining(`${name} is empty: ${remedy}`),
    });
  }
});

it("an empty LEASEHOLD_KEY does not matter where the URL has a key", async () => {
  const store = server.url.replace("http://", `http://lh_${"0".repeat(12)}_${"0".repeat(32)}@`);
  const { stderr } = await leasehold(["ls", "--store", store], { env: { LEASEHOLD_KEY: "" } });
  expect(stderr).toContain("this server requires no API key");
});

it("audit list gives details as JSON", async () => {
  await run("pause", "detailed", "--reason", "r");
  const { stdout } = await run("audit", "list", "--target", "detailed", "--json");
  const entries = JSON.parse(stdout) as { details: unknown }[];
  expect(entries.length).toBeGreaterThan(0);
  for (const { details } of entries) expect(details).toEqual(expect.any(Object));
});

it.each(["http://127.0.0.1:2", "etcd://127.0.0.1:1"])(
  "says that it tries %s again, why, and until when",
  async (url) => {
    const cli = new Cli(["ls", "--store", url]);
    const line = await cli.until(({ err }) => err.find((text) => text.includes("retrying")));
    const shown = /^leasehold: no connection to (\S+) yet: (.*); retrying until (.*Z)$/.exec(line);
    expect(shown?.[1]).toBe(url);
    expect(shown?.[2]).toContain("ECONNREFUSED");
    expect(Date.parse(shown?.[3] ?? "")).toBeGreaterThan(Date.now());
    await cli.end("SIGKILL");
  },
);

/** How the command line words errors, and prints them with --json. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

let url: string;
beforeAll(async () => {
  checkBuild();
  ({ url } = await serve("memory:errors"));
});
afterAll(() => endAll());

it.each([
  [["ls", "--json", "--nope"], "unknown option '--nope'"],
  [["acquire", "--json"], "missing required argument 'resource'"],
  [["nope", "--json"], "unknown command 'nope'"],
  [["tasks", "retry", "--json"], "required option '--reason <text>' not specified"],
  [["acquire", "r", "--ttl", "1x", "--json"], "option '--ttl <duration>' argument '1x' is invalid"],
  [["migrate", "--json", "--store", "http://127.0.0.1:2"], "http://127.0.0.1:2 is a server"],
])("%j prints its mistake as JSON", async (args, message) => {
  const { code, stdout, stderr } = await leasehold(args);
  expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
  expect(JSON.parse(stderr)).toEqual({
    error: { code: null, message: expect.stringContaining(message), docs: null },
  });
});

it("prints a mistake in words if --json belongs to the command that it would run", async () => {
  const { code, stderr } = await leasehold(["run", "r", "--nope", "--", "echo", "--json"]);
  expect([code, stderr]).toEqual([64, expect.stringMatching(/^error: unknown option '--nope'\n/)]);
});

it("prints the help as text, also with --json", async () => {
  const { code, stdout } = await leasehold(["ls", "--json", "--help"]);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^Usage: leasehold ls /)]);
});

it("names the flags that were typed, not the options of the library", async () => {
  const env = { LEASEHOLD_STORE: url };
  const short = await leasehold(["acquire", "r", "--ttl", "1ms"], { env });
  expect([short.code, short.stderr.split("\n")[0]]).toEqual([
    64,
    "leasehold: INVALID_OPTION: --ttl must be from 1000ms to 3600000ms, not 1ms",
  ]);
  expect((await leasehold(["acquire", "r", "--ttl", "10m"], { env })).code).toBe(0);
  const held = await leasehold(["acquire", "r"], { env });
  expect([held.code, held.stderr]).toEqual([75, expect.stringContaining("or raise --wait")]);
});

it("revokes under the name force-unlock, too", async () => {
  const env = { LEASEHOLD_STORE: url };
  expect((await leasehold(["acquire", "stuck", "--ttl", "10m"], { env })).code).toBe(0);
  const { code, stdout } = await leasehold(["force-unlock", "stuck", "--reason", "why"], { env });
  expect([code, stdout]).toEqual([0, expect.stringContaining("revoked")]);
});

it("generate status names the store on which no instance runs", async () => {
  const { stdout } = await leasehold(["generate", "status", "--store", url]);
  expect(stdout).toContain(`no instance is running on ${url}`);
});

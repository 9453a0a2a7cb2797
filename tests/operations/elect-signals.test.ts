/** Signals to a candidate between two terms. */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Cli, checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

let url: string;
beforeAll(async () => {
  checkBuild();
  ({ url } = await serve());
});
afterAll(() => endAll());

it("end a candidate whose command is stopped because its lease is lost meanwhile", async () => {
  const command = ["sh", "-c", 'trap "" TERM; echo begun; while :; do sleep 0.1; done'];
  const options = ["--ttl", "2s", "--grace", "1s", "--store", url];
  const candidate = new Cli(["elect", "stubborn", ...options, "--", ...command]);
  await candidate.until(({ out }) => out.find((line) => line === "begun"));
  process.kill(candidate.pid, "SIGTERM");
  const revoked = await leasehold([
    "revoke",
    "stubborn",
    "--at",
    "now",
    "--reason",
    "test",
    "--store",
    url,
  ]);
  expect(revoked.code).toBe(0);
  const { code, stdout } = await candidate.ended;
  expect([code, stdout]).toEqual([143, "begun"]);
});

it("end a candidate whose command has ended by itself", async () => {
  const candidate = new Cli(["elect", "n", "--store", url, "--", "true"]);
  // A second passes between its terms.
  await vi.waitFor(
    async () => {
      const answer = await fetch(`${url}/v1/leases?prefix=n&state=released`);
      expect(await answer.json()).toMatchObject({ items: [{ resource: "n" }] });
    },
    { timeout: 30_000, interval: 20 },
  );
  expect((await candidate.end("SIGTERM")).code).toBe(0);
});

it.each([0, 7])("end with the code of a command that traps them: %i", async (own) => {
  const script = `trap "exit ${own}" TERM; echo begun; while :; do sleep 0.1; done`;
  for (const command of ["run", "elect"]) {
    const name = `trapping-${command}-${own}`;
    const cli = new Cli([command, name, "--store", url, "--", "sh", "-c", script]);
    await cli.until(({ out }) => out.find((line) => line === "begun"));
    expect([command, (await cli.end("SIGTERM")).code]).toEqual([command, own]);
  }
});

/** Signals to a candidate between two terms. */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Cli, checkBuild, endAll, serve } from "../support/cli.js";

let url: string;
beforeAll(async () => {
  checkBuild();
  ({ url } = await serve());
});
afterAll(() => endAll());

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

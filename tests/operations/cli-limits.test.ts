/** What the command line says at a limit of a server's tenant. */
import { afterEach, beforeAll, expect, it } from "vitest";
import { checkBuild, endAll, leasehold, serve } from "../support/cli.js";

beforeAll(() => checkBuild());
afterEach(() => endAll());

it("names the limit that refuses an acquire, also at the end of a wait, a run and an enqueue", async () => {
  const { url } = await serve("memory:", ["--limits", "leases=1,tasks=1"]);
  const run = (...args: string[]) => leasehold(args, { env: { LEASEHOLD_STORE: url } });
  expect((await run("acquire", "a")).code).toBe(0);
  expect((await run("enqueue", "mail", "1")).code).toBe(0);
  const refused = [
    await run("acquire", "b"),
    await run("acquire", "b", "--wait", "3s"),
    await run("run", "b", "--wait", "1s", "--", "true"),
    await run("enqueue", "mail", "2"),
  ];
  for (const { code, stderr } of refused) {
    expect([code, stderr]).toEqual([
      69,
      expect.stringMatching(/STORE_UNAVAILABLE: the server refused, by a limit: .*at most 1 /),
    ]);
  }
});

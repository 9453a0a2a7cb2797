/** What the command line says of names that look like others. */
import { afterEach, beforeAll, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

beforeAll(() => checkBuild());
afterEach(() => endAll());

it("ls and show note a name that mixes scripts, and JSON does not change", async () => {
  const { url } = await serve();
  await using client = await connect(url, { holder: "web-1" });
  const name = "p\u0430yment";
  await client.acquire(name);
  const note = 'note: "p\\u{430}yment" mixes Latin and Cyrillic letters, some of which look alike';
  const print = async (...args: string[]) =>
    (await leasehold([...args, "--store", url])).stdout.trim().split("\n");
  expect((await print("ls")).at(-1)).toBe(note);
  expect((await print("show", name)).at(-1)).toBe(note);
  expect((await print("ls", "--json")).join("\n")).not.toContain("note:");
});

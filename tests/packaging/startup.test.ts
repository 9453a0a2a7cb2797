/** What programs load before their first line. Counted, not timed: each module costs about half a millisecond. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkBuild, MAIN } from "../support/processes/cli.js";

const run = promisify(execFile);
const root = new URL("../..", import.meta.url);
const RECORD = fileURLToPath(new URL("../support/processes/record-loads.js", import.meta.url));

let folder: string;
beforeAll(async () => {
  checkBuild();
  folder = await mkdtemp(join(tmpdir(), "leasehold-startup-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

let count = 0;

/** Runs node, and lists what it imports: our modules by path, others by the name of their package. */
async function loadsOf(...args: string[]) {
  const LOADS = join(folder, `${(count += 1)}`);
  const env = { ...process.env, LOADS };
  await run(process.execPath, ["--import", RECORD, ...args], { env, cwd: fileURLToPath(root) });
  const urls = (await readFile(LOADS, "utf8")).split("\n").filter((url) => url.startsWith("file:"));
  const found = urls.filter(
    (url) => url !== new URL("tests/support/processes/record-loads.js", root).href,
  );
  const ours = found.flatMap((url) => /\/packages\/(leasehold.*)/.exec(url)?.[1] ?? []);
  const others = found.flatMap(
    (url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? [],
  );
  return { ours: ours.sort(), others: [...new Set(others)].sort(), count: found.length };
}

it.each(["--help", "--version"])("loads no command, no library for %s", async (flag) => {
  const { ours, others, count: modules } = await loadsOf(MAIN, flag);
  expect(others).toEqual(["commander", "picocolors"]);
  expect(ours.filter((path) => !path.startsWith("leasehold-server/dist/cli/"))).toEqual([
    "leasehold/dist/env/describe.js",
    "leasehold/dist/env/hidden.js",
  ]);
  expect(modules).toBeLessThanOrEqual(15);
});

it("loads of the library what every client uses: no engine, no driver, no operator's part", async () => {
  const code = `await import("leasehold")`;
  const { ours, others, count: modules } = await loadsOf("--input-type=module", "-e", code);
  expect(others).toEqual(["@noble/hashes", "tinyqueue"]);
  const folders = ours.map((path) => path.replace(/^leasehold\/dist\/|\/?[^/]+$/g, ""));
  expect([...new Set(folders)].sort()).toEqual(
    [
      "",
      "lease",
      "election",
      "env",
      "instrumentation",
      "store-kit",
      "stores",
      "tasks",
      "tasks/kinds",
      "tasks/schedules",
    ].sort(),
  );
  expect(modules).toBeLessThanOrEqual(138);
});

it.each(["run", "acquire", "enqueue"])(
  "loads for %s neither engines nor the server",
  async (command) => {
    const { ours, others, count: modules } = await loadsOf(MAIN, command, "--help");
    expect(others).toEqual(["@noble/hashes", "commander", "picocolors", "tinyqueue"]);
    const unused = /^leasehold\/dist\/stores\/.*\/|^leasehold-server\/dist\/(http|protocol|web)\//;
    expect(ours.filter((path) => unused.test(path))).toEqual([]);
    expect(modules).toBeLessThanOrEqual(194);
  },
);

/** Exports of the audit, as the command line takes them. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { checkBuild, endAll, leasehold } from "../support/processes/cli.js";

describePostgres("audit verify --export", () => {
  let database: FreshDatabase;
  let directory: string;
  beforeAll(async () => {
    checkBuild();
    database = await freshDatabase();
    directory = await mkdtemp(join(tmpdir(), "leasehold-"));
  });
  afterAll(async () => {
    await endAll();
    await database.drop();
    await rm(directory, { recursive: true });
  });

  it("takes a whole export or its last line alone, and no export that was cut off", async () => {
    const run = (...args: string[]) => leasehold([...args, "--store", database.url]);
    for (const leases of ["1", "2"]) {
      expect((await run("limits", "set", "--leases", leases, "--reason", "r")).code).toBe(0);
    }
    const whole = join(directory, "audit.jsonl");
    expect((await run("audit", "export", "--out", whole)).code).toBe(0);
    const text = await readFile(whole, "utf8");
    const lines = text.trimEnd().split("\n");
    const verify = async (content: string) => {
      const file = join(directory, "export");
      await writeFile(file, content);
      const { code, stderr } = await run("audit", "verify", "--export", file);
      return [code, stderr];
    };
    expect(await verify(text)).toEqual([0, ""]);
    const { end } = JSON.parse(lines.at(-1) ?? "") as { end: { seq: number } };
    expect(await verify(JSON.stringify(end))).toEqual([0, ""]);
    const { seq } = end;
    const behind = await run("audit", "verify", "--export", whole, "--from-export");
    expect(behind).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`entries: ${seq}, those after ${seq} unchanged`),
    });
    expect(await run("audit", "verify", "--from-export")).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("--from-export needs an --export"),
    });
    const cutOff = [64, expect.stringContaining("does not end with the end of the chain")];
    const entries = lines.slice(0, -1);
    expect(entries.length).toBeGreaterThanOrEqual(2);
    // At the end of each line, and within the last one.
    for (const [index] of entries.entries()) {
      expect(await verify(`${lines.slice(0, index + 1).join("\n")}\n`)).toEqual(cutOff);
    }
    expect(await verify(text.trimEnd().slice(0, -1))).toEqual(cutOff);
    expect(await verify("")).toEqual(cutOff);
  });
});

/** `leasehold once` as people call it: real processes, one after the other and at once, on a PGlite directory and PostgreSQL. */
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { checkBuild, leasehold } from "../support/cli.js";
import { describePostgres, type FreshDatabase, freshDatabase } from "../support/postgres.js";
import { endAll, temporaryFolder } from "../support/processes.js";

beforeAll(checkBuild);
afterEach(() => endAll());

const TIMEOUT_MS = 120_000;

it(
  "runs a command until it has succeeded once, and tells later callers who did it",
  async () => {
    const store = `pglite:${join(await temporaryFolder(), "data")}`;
    const once = (...args: string[]) => leasehold(["once", "report", "--store", store, ...args]);
    const failed = await once("--holder", "ann", "--", "sh", "-c", "echo begun; exit 3");
    expect([failed.code, failed.stdout]).toEqual([3, "begun"]);
    const done = await once("--holder", "bob", "--", "sh", "-c", "echo written; echo note >&2");
    expect([done.code, done.stdout, done.stderr]).toEqual([0, "written", "note"]);
    const again = await once("--", "echo", "written twice");
    expect([again.code, again.stdout]).toEqual([0, ""]);
    expect(again.stderr).toMatch(
      /^leasehold: "report" was done by bob at .*; the command is not run$/,
    );
    const notice = JSON.parse((await once("--json", "--", "echo", "no")).stderr) as object;
    expect(notice).toMatchObject({ event: "done", key: "report", by: "bob" });
    expect((notice as { output: string }).output).toMatch(/^(written\nnote|note\nwritten)\n$/);
  },
  TIMEOUT_MS,
);

it(
  "says that a key has failed for good",
  async () => {
    const store = `pglite:${join(await temporaryFolder(), "data")}`;
    const once = (...args: string[]) => leasehold(["once", "job", "--store", store, ...args]);
    expect((await once("--max-attempts", "1", "--", "false")).code).toBe(1);
    const refused = await once("--", "echo", "never");
    expect([refused.code, refused.stdout]).toEqual([1, ""]);
    expect(refused.stderr).toContain('ONCE_FAILED: "job" has failed once, at last with: the');
  },
  TIMEOUT_MS,
);

describePostgres("once, on many machines at once", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  it(
    "runs a command on one of them",
    async () => {
      const args = ["once", "nightly", "--store", database.url, "--", "echo", "done"];
      const ended = await Promise.all(Array.from({ length: 4 }, () => leasehold(args)));
      expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
      expect(ended.filter(({ stdout }) => stdout === "done")).toHaveLength(1);
    },
    TIMEOUT_MS,
  );
});

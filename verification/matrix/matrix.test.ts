/**
 * Part of the matrix of features, engines and faults, and its table. `npm run verify -- matrix` runs the whole.
 * @module-tag safety
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describePostgres, freshDatabase } from "../../tests/support/engines/postgres.js";
import { compile } from "../../tests/support/processes/compile.js";
import { endAll } from "../../tests/support/processes/processes.js";
import type { Cell } from "./matrix.js";
import { chosen, runMatrix } from "./matrix.js";
import { isGreen, tableOf } from "./table.js";

let program: Awaited<ReturnType<typeof compile>>;
beforeAll(async () => {
  program = await compile(new URL("./process.ts", import.meta.url));
});
afterAll(async () => {
  await endAll();
  await program.remove();
});

describePostgres("on PostgreSQL", () => {
  it.each(["kill", "stop"])("every feature survives the fault %s", async (fault) => {
    const database = await freshDatabase();
    const cells = await runMatrix({
      engines: ["postgres"],
      faults: [fault],
      program: program.path,
      postgres: database.url,
    });
    expect(cells.filter(({ verdict }) => verdict !== "right")).toEqual([]);
    expect(cells).toHaveLength(7);
    await database.drop();
  });
});

it("in memory a lease survives SIGSTOP, and what is not tried says why", async () => {
  const cells = await runMatrix({
    engines: ["memory"],
    features: ["lease", "guard"],
    program: program.path,
  });
  expect(isGreen(cells, 6)).toBe(true);
  expect(tableOf(cells).split("\n")).toEqual([
    "| feature | fault   | memory             |",
    "|---------|---------|--------------------|",
    "| lease   | kill -9 | in one process [1] |",
    "| lease   | SIGSTOP | ✓ [2]              |",
    "| lease   | restart | in one process [3] |",
    "| guard   | kill -9 | in one process [1] |",
    "| guard   | SIGSTOP | ✓ [2]              |",
    "| guard   | restart | in one process [3] |",
    "",
    expect.stringContaining("[1] memory, kill -9: in one process: "),
    expect.stringContaining("[2] memory, SIGSTOP: in one process: "),
    expect.stringContaining("[3] memory, restart: in one process: "),
  ]);
});

it("refuses what there is not", async () => {
  await expect(runMatrix({ engines: ["oracle"] })).rejects.toThrow('no engine "oracle"');
  expect(chosen("letter", ["a", "b", "c"], ["c", "a"])).toEqual(["a", "c"]);
});

describe("a matrix is not green", () => {
  const right: Cell = { feature: "lease", engine: "memory", fault: "stop", verdict: "right" };
  it.each<[string, Cell[], number]>([
    ["with a cell that is wrong", [right, { ...right, verdict: "wrong", reason: "lost" }], 2],
    ["with a cell that is missing", [right], 2],
    ["with a cell that has neither a verdict nor a reason", [{ ...right, verdict: "none" }], 1],
  ])("%s", (_, cells, expected) => {
    expect(isGreen([right], 1)).toBe(true);
    expect(isGreen(cells, expected)).toBe(false);
  });
});

/** The quick rows of the table of runtimes, and the table. `node tests/runtimes/main.js` tries all rows. */
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeUnless } from "../support/engines/postgres.js";
import { checkBuild } from "../support/processes/cli.js";
import { endAll } from "../support/processes/processes.js";
import { whereItRuns } from "./page.js";
import { isGreen, type Row, tryRow } from "./row.js";
import { chosen, ROWS, tryRows } from "./rows.js";
import { notInstalled, Site } from "./site.js";
import { tableOf } from "./table.js";

const noServer = async (): Promise<string> => {
  throw new Error("a quick row needs no server of its own");
};

let folder: string;
let site: Site;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "leasehold-runtimes-"));
  site = new Site(folder, { postgres: noServer, redis: noServer });
});
afterAll(async () => {
  await endAll();
  await rm(folder, { recursive: true, force: true });
});

describeUnless(notInstalled, "the packed packages", () => {
  beforeAll(() => checkBuild());

  const quick = ROWS.filter((row) => row.quick === true).map((row) => [row.name, row] as const);
  it.for(quick)("%s", async ([, row], { skip }) => {
    const { verdict, reason } = await tryRow(row, site);
    skip(verdict === "not tried" && process.env.CI !== "true", reason);
    expect(verdict, reason).toBe(row.fails ? "no" : "yes");
  });
});

describe("packages/leasehold/README.md", () => {
  const readme = readFileSync(
    new URL("../../packages/leasehold/README.md", import.meta.url),
    "utf8",
  );

  it("has a table of what it tries", () => {
    const remedy = "Print it: node tests/runtimes/main.js --page";
    expect(readme, remedy).toContain(whereItRuns(ROWS));
  });

  it.each(["jest.babel.cjs", "jest.ts-jest.cjs", "jest.ts-jest-modules.cjs"])("has %s", (name) => {
    expect(readme).toContain(
      readFileSync(new URL(`programs/jest/${name}`, import.meta.url), "utf8"),
    );
  });
});

describe("a row", () => {
  const row = (more: Partial<Row>): Row => ({
    name: "a",
    tries: "it",
    run: async () => {},
    ...more,
  });
  const fails = { reason: "too old", as: /SyntaxError/ };
  const throws = (message: string) => async () => {
    throw new Error(message);
  };

  it.each([
    ["works", {}, "yes", undefined],
    ["fails", { run: throws("no such file") }, "wrong", "no such file"],
    ["fails as it says", { fails, run: throws("a SyntaxError") }, "no", "too old"],
    ["fails in another way", { fails, run: throws("no such file") }, "wrong", "no such file"],
    [
      "works against its word",
      { fails },
      "wrong",
      "it works, but the row says that it cannot: too old",
    ],
    ["lacks its tool", { missing: () => "no Bun" }, "not tried", "no Bun"],
  ] as const)("that %s", async (_, more, verdict, reason) => {
    const result = await tryRow(row(more), site);
    expect(result).toMatchObject({ verdict, ...(reason !== undefined && { reason }) });
    expect(isGreen([result], 1)).toBe(verdict !== "wrong");
    expect(isGreen([result], 2)).toBe(false);
  });

  it("is chosen by a part of its name", () => {
    expect(chosen("deno: mem").map(({ name }) => name)).toEqual(["Deno: memory"]);
    expect(chosen(undefined)).toBe(ROWS);
    expect(() => chosen("COBOL")).toThrow('no row has "COBOL" in its name: Node 20.19: ');
  });

  it("counts only if it ended before the run was stopped", async () => {
    const stopping = new AbortController();
    const stops = row({ name: "b", run: async () => stopping.abort() });
    const started: string[] = [];
    const results = await tryRows([row({}), stops, row({ name: "c" })], site, stopping.signal, {
      onStart: ({ name }) => started.push(name),
      onResult: () => {},
    });
    expect(results.map(({ name }) => name)).toEqual(["a"]);
    expect(started).toEqual(["a", "b"]);
  });

  it("is a line of the table, with what is wrong below", () => {
    const results = [
      { name: "Bun", tries: "a lease", verdict: "yes", seconds: 1 },
      { name: "Jest", tries: "a test", verdict: "no", reason: "too old", seconds: 12.3 },
      { name: "Deno", tries: "a task", verdict: "wrong", reason: "it\nfailed", seconds: 0.5 },
    ] as const;
    expect(tableOf(results).split("\n")).toEqual([
      "| row  | tries   | works       | seconds |",
      "| ---- | ------- | ----------- | ------- |",
      "| Bun  | a lease | yes         | 1.0     |",
      "| Jest | a test  | no: too old | 12.3    |",
      "| Deno | a task  | wrong       | 0.5     |",
      "",
      "wrong: Deno",
      "it",
      "failed",
    ]);
  });
});

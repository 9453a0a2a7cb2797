/**
 * The list of planted bugs does not rot: each still finds the one place that it spoils, and its check. And
 * nothing counts as caught that was not.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = new URL("../../", import.meta.url);
const script = (name: string) => new URL(`verification/planted-bugs/${name}`, root).href;

interface Bug {
  readonly name: string;
  readonly area: string;
  readonly file: string;
  readonly find: string;
  readonly by: string;
  readonly what: string;
  readonly also?: readonly { readonly file?: string; readonly find: string; readonly by: string }[];
  readonly check: { readonly what: string };
}
const { BUGS } = (await import(script("bugs.js"))) as { readonly BUGS: readonly Bug[] };

it("names each once", () => {
  const names = BUGS.map(({ name }) => name);
  expect(names).toEqual([...new Set(names)]);
  expect(BUGS.length).toBeGreaterThanOrEqual(40);
});

it("names texts that stand in one place each, and other ones for them", () => {
  const wrong = BUGS.flatMap(({ area, name, what, also = [], ...bug }) =>
    [bug, ...also].flatMap(({ file = bug.file, find, by }) => {
      const places = readFileSync(new URL(file, root), "utf8").split(find).length - 1;
      const isRight = places === 1 && by !== find && /^.{20,}\.$/.test(what);
      return isRight ? [] : [`${area}: ${name}: ${places} places in ${file}: ${find}`];
    }),
  );
  expect(wrong).toEqual([]);
});

it("is caught by tests that there are", () => {
  const files = BUGS.flatMap(({ check }) => /`(\S+\.test\.ts)`/.exec(check.what)?.[1] ?? []);
  expect(files.filter((file) => !existsSync(new URL(file, root)))).toEqual([]);
});

const { testsNear } = (await import(script("near.js"))) as {
  testsNear(sources: readonly string[]): string[][];
};
const SOURCES = "packages/leasehold/src";

describe("the tests near a source", () => {
  it("begin with those that are named after it", () => {
    const [named, beside = [], ofPart] = testsNear([`${SOURCES}/stores/memory/task-index.ts`]);
    expect(named).toEqual([`${SOURCES}/stores/memory/task-index.test.ts`]);
    expect(beside).toContain(`${SOURCES}/stores/memory/store.test.ts`);
    expect(ofPart).toContain(`${SOURCES}/tasks/retention.test.ts`);
  });

  it("are those of its engine, too", () => {
    expect(testsNear([`${SOURCES}/stores/etcd/decide.ts`]).at(-1)).toEqual(
      expect.arrayContaining([
        "tests/conformance/etcd.test.ts",
        "tests/engines/etcd-queue.test.ts",
        "tests/faults/etcd-faults.test.ts",
      ]),
    );
  });

  it("stand in one step each, and would not fail with any change", () => {
    const sources = BUGS.filter(({ area }) => area.startsWith("strangers")).map(({ file }) => file);
    const tests = testsNear(sources).flat();
    expect(tests).toEqual([...new Set(tests)]);
    expect(tests).not.toContain(`${SOURCES}/stores/redis/scripts.test.ts`);
    expect(tests).not.toContain("tests/engines/redis-setup.test.ts");
    expect(tests).not.toContain("tests/engines/etcd-users.test.ts");
    for (const source of sources) expect(testsNear([source]).flat(), source).not.toEqual([]);
  });
});

const { anyNear } = (await import(script("checks.js"))) as {
  anyNear(sources: readonly string[]): { run(copy: unknown): Promise<string | null> };
};

it.each([
  ["fails again when its file runs alone", true, "it is so"],
  ["fails only once", false, null],
])("a test near a source that %s catches: %j", async (_, again, caught) => {
  const files: (string | string[])[] = [];
  const copy = {
    async test(paths: string | string[]) {
      files.push(paths);
      const [file = ""] = [paths].flat();
      const fails = files.length === 1 || (files.length === 2 && again);
      return { file: fails ? file : null, failed: fails ? "it is so" : null, passedFiles: [] };
    },
    run: async () => ({ status: 0, stdout: '{"of":10,"failures":[]}', stderr: "" }),
  };
  const source = `${SOURCES}/stores/memory/task-index.ts`;
  const own = source.replace(".ts", ".test.ts");
  expect(await anyNear([source]).run(copy)).toBe(caught && `${own}: ${caught}`);
  expect(files.slice(0, 2)).toEqual([[own], own]);
});

interface Tried {
  readonly name: string;
  readonly killedBy: string | null;
  readonly problem: string | null;
}
interface Control {
  readonly check: string;
  readonly problem: string | null;
}
interface Check {
  readonly kind: string;
  readonly what: string;
  run(): Promise<string | null>;
  control(): Promise<string | null>;
}
/** A bug, planted so many times, and what the table shows of it. */
interface Case extends Pick<Check, "run" | "control"> {
  readonly when: string;
  readonly planted?: number;
  readonly killedBy: string | null;
  readonly cell?: string;
}
const { control, plant } = (await import(script("plant.js"))) as {
  control(copy: unknown, checks: readonly Check[]): Promise<Control>;
  plant(copy: unknown, bug: unknown, controls: readonly Control[]): Promise<Tried>;
};
const { markdown } = (await import(script("report.js"))) as { markdown(report: object): string };

describe("a bug", () => {
  const noticed = async () => "seed 1";
  const well = async () => null;
  const cases: readonly Case[] = [
    { when: "its check fails with it alone", run: noticed, control: well, killedBy: "seed 1" },
    {
      when: "its check passes with it",
      run: well,
      control: well,
      killedBy: null,
      cell: "**not caught**: nothing noticed",
    },
    {
      when: "its check fails without it, too",
      run: noticed,
      control: noticed,
      planted: 0,
      killedBy: null,
      cell: "**not caught**: not planted, the check fails without it: seed 1",
    },
    {
      when: "its check cannot run without it",
      run: noticed,
      planted: 0,
      killedBy: null,
      control: () => Promise.reject(new Error("no engine\nat all")),
      cell: "**not caught**: not planted, the check fails without it: no engine",
    },
  ];
  it.each(cases)(
    "is caught by $killedBy when $when",
    async ({ run, control: alone, planted = 1, killedBy, cell = killedBy }) => {
      let times = 0;
      const copy = {
        with(_bug: unknown, use: () => unknown) {
          times += 1;
          return use();
        },
      };
      const check: Check = { kind: "unit", what: "`a.test.ts`", run, control: alone };
      const bug = { name: "a-bug", area: "rules", file: "a.ts", what: "It is wrong.", check };
      const controls = [await control(copy, [check])];
      const tried = await plant(copy, bug, controls);
      expect(tried).toMatchObject({ name: "a-bug", killedBy });
      expect(times).toBe(planted);
      const origin = { date: "2026-01-01T00:00", commit: "", node: "", machine: "" };
      expect(markdown({ ...origin, controls, bugs: [tried] })).toContain(`| ${cell} | 0 |`);
    },
  );
});

it("finds nothing in seeds without a bug, also where the real code waits for turns of the event loop", () => {
  const args = [fileURLToPath(script("simulate.js")), "tasks-http", "200", "10"];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect({ stdout, stderr }).toEqual({ stdout: '{"ran":10,"of":10,"failures":[]}', stderr: "" });
});

it.each([
  ["a bug that there is not", ["no-such-bug"], "not in the list: no-such-bug"],
  ["a bug of another area", ["lua-wakes-the-dead", "--area", "postgres"], "no bug fits"],
  ["no copies", ["--jobs", "0"], "--jobs must be"],
])("refuses %s", (_, args, said) => {
  const run = fileURLToPath(script("run.js"));
  const { status, stdout, stderr } = spawnSync(process.execPath, [run, ...args], {
    encoding: "utf8",
  });
  expect({ status, stdout }).toEqual({ status: 64, stdout: "" });
  expect(stderr).toContain(said);
});

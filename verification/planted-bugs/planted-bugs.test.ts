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
  readonly check?: { readonly path?: string };
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
  const files = BUGS.flatMap(({ check }) => check?.path ?? []);
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
    expect(testsNear([`${SOURCES}/stores/etcd/lease-save.ts`])[3]).toEqual(
      expect.arrayContaining([
        "tests/conformance/etcd.test.ts",
        "tests/engines/etcd-queue.test.ts",
        "tests/faults/etcd-faults.test.ts",
      ]),
    );
  });

  it("end with the simulation's share of `npm test`, unless that runs another store", () => {
    const simulation = "verification/simulation/simulation.test.ts";
    expect(testsNear([`${SOURCES}/lease/rules.ts`]).at(-1)).toEqual([simulation]);
    expect(testsNear([`${SOURCES}/stores/etcd/lease-save.ts`]).at(-1)).toEqual([]);
  });

  it("stand in one step each, and would not fail with any change", () => {
    const sources = [...new Set(BUGS.map(({ file }) => file))];
    const tests = testsNear(sources).flat();
    expect(tests).toEqual([...new Set(tests)]);
    expect(tests).not.toContain("tests/engines/redis-setup.test.ts");
    expect(tests).not.toContain("tests/engines/etcd-users.test.ts");
    for (const source of sources) expect(testsNear([source]).flat(), source).not.toEqual([]);
  });
});

interface Order {
  readonly paths: readonly string[];
  readonly inNpmTest: boolean;
  readonly isSpoilt: boolean;
}
type Answer = { file?: string; failed: string | null; tier?: string; passedFiles: string[] };
/** A copy in which `fails` says what fails, and all orders that it was given. */
function copyWhere(fails: (order: Order, at: number) => string | null) {
  const orders: Order[] = [];
  let isSpoilt = false;
  return {
    orders,
    async with<Result>(_bug: unknown, use: () => Promise<Result>) {
      isSpoilt = true;
      return use().finally(() => {
        isSpoilt = false;
      });
    },
    async test(paths: string[], { inNpmTest }: { inNpmTest: boolean }): Promise<Answer> {
      const order = { paths, inNpmTest, isSpoilt };
      const failed = fails(order, orders.push(order));
      const [file = ""] = paths;
      const tier = inNpmTest ? "unit" : "engines";
      return failed === null
        ? { failed, passedFiles: paths }
        : { file, failed, tier, passedFiles: [] };
    },
    run: async () => ({ status: 0, stdout: '{"of":10,"failures":[]}', stderr: "" }),
  };
}

interface Tried {
  readonly tier: string | null;
  readonly killedBy: string | null;
}
interface Control {
  readonly check: string;
  readonly problem: string | null;
}
const { Controls, plant } = (await import(script("plant.js"))) as {
  Controls: new (passed: readonly Control[], tried?: (control: Control) => void) => object;
  plant(copy: unknown, bug: unknown, controls: unknown): Promise<Tried>;
};
const { markdown, shares } = (await import(script("report.js"))) as {
  markdown(report: object): string;
  shares(bugs: readonly object[]): string[];
};

describe("a bug", () => {
  const file = `${SOURCES}/stores/memory/task-index.ts`;
  const own = file.replace(".ts", ".test.ts");
  const slow = "tests/faults/once.test.ts";
  const bug = { name: "a-bug", area: "tasks", file, sources: [file], what: "It is wrong." };
  const cases: readonly {
    readonly when: string;
    readonly check?: object;
    readonly fails: (order: Order, at: number) => string | null;
    readonly expected: string;
  }[] = [
    {
      when: "its own check fails with it alone",
      check: { path: slow },
      fails: ({ inNpmTest, isSpoilt }) => (!inNpmTest && isSpoilt ? "it is so" : null),
      expected: `engines | \`${slow}\`: it is so`,
    },
    {
      when: "a test near its source fails with it, before its own check",
      check: { path: slow },
      fails: ({ paths, isSpoilt }) => (isSpoilt && paths.includes(own) ? "it is so" : null),
      expected: `unit | \`${own}\`: it is so`,
    },
    {
      when: "a test near its source fails only once",
      fails: (_, at) => (at === 1 ? "too late" : null),
      expected: " | **not caught**: nothing noticed",
    },
    { when: "all pass with it", fails: () => null, expected: " | **not caught**: nothing noticed" },
    {
      when: "a test fails without it, too",
      fails: ({ paths, inNpmTest }) => (inNpmTest && paths.includes(own) ? "no engine" : null),
      expected: ` | **not caught**: \`${own}\` (unit) fails without the bug, too: \`${own}\`: no engine`,
    },
  ];
  it.each(cases)("is reported as $expected when $when", async ({ check, fails, expected }) => {
    const ran: Control[] = [];
    const copy = copyWhere(fails);
    const tried = await plant(copy, { ...bug, check }, new Controls([], (one) => ran.push(one)));
    const origin = { date: "2026-01-01T00:00", commit: "", node: "", machine: "" };
    const page = markdown({ ...origin, controls: ran, bugs: [tried] });
    expect(page).toContain(`| ${expected} | 0 |`);
    expect(tried.tier === null).toBe(tried.killedBy === null);
  });

  it("is not tried again without, where a run before has passed", async () => {
    const copy = copyWhere(({ isSpoilt }) => (isSpoilt ? "it is so" : null));
    const controls = new Controls([{ check: `\`${own}\` (unit)`, problem: null }]);
    expect(await plant(copy, { ...bug, check: { path: own } }, controls)).toMatchObject({
      killedBy: `\`${own}\`: it is so`,
    });
    expect(copy.orders).toEqual([{ paths: [own], inNpmTest: true, isSpoilt: true }]);
  });
});

it("says where `npm test` catches fewer than it should", () => {
  const [tier, other] = ["contract", "engines"];
  const engine = { area: "redis", file: `${SOURCES}/stores/redis/scripts.ts` };
  const stranger = { area: "strangers 1", file: `${SOURCES}/lease/acquire.ts` };
  const rule = { area: "rules", file: `${SOURCES}/lease/rules.ts` };
  expect(
    shares([
      { ...engine, tier: other },
      { ...rule, tier },
      { ...stranger, tier: null },
    ]),
  ).toEqual([
    "all areas: 1 of 3, 33 %",
    "the groups below: 1 of 2, 50 %, **less than the goal of 85 %**",
    "rules: 1 of 1, 100 %",
    "waiting: 0 of 1, 0 %, **less than the goal of 85 %**",
  ]);
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

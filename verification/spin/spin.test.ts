/** The protocol model: its small share of `npm run verify -- spin`, and what docs/model-checking.md says of the whole. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { describeUnless } from "../../tests/support/engines/postgres.js";
import { CONFIGURATIONS, VARIANTS } from "./configurations.js";
import { type Kept, pageOf } from "./page.js";
import { PROPERTIES } from "./properties.js";
import { isAsExpected, textOf } from "./report.js";
import { storyOf } from "./story.js";
import { missing, verify } from "./verify.js";

const root = new URL("../../", import.meta.url);
const folder = fileURLToPath(new URL("verification/spin/", root));
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const kept = () => JSON.parse(read("docs/reliability/spin.json")) as Kept;
const model = readdirSync(folder)
  .filter((name) => name.endsWith(".pml"))
  .map((name) => read(`verification/spin/${name}`))
  .join("\n");

describe("docs/model-checking.md", () => {
  it("is what the kept report says, and all of it is as expected", () => {
    expect(pageOf(kept())).toBe(read("docs/model-checking.md"));
    expect(isAsExpected(kept())).toBe(true);
  });

  it("has the configurations and variants as they are now", () => {
    const sameAs = (all: readonly object[]) => all.map((one) => expect.objectContaining(one));
    expect(kept().configurations).toEqual(sameAs(CONFIGURATIONS));
    expect(kept().variants).toEqual(sameAs(VARIANTS));
  });
});

describe("properties", () => {
  it.each(PROPERTIES)("$name has the words of the guarantees", ({ words }) => {
    expect(read("docs/guarantees.md").replaceAll(/\s+/g, " ")).toContain(words);
  });

  it.each(PROPERTIES)("$name is in the model, and a variant breaks it", ({ name }) => {
    expect(model).toMatch(new RegExp(`property\\(${name},|ltl ${name} `));
    expect(VARIANTS.map(({ breaks }) => breaks)).toContain(name);
  });

  it("has all properties of the model", () => {
    const checked = [...model.matchAll(/property\((\w+),\s/g)].map(([, name]) => name);
    const names: unknown[] = PROPERTIES.map(({ name }) => name);
    expect(checked.filter((name) => name !== "name" && !names.includes(name))).toEqual([]);
  });
});

describeUnless(missing(), "SPIN", () => {
  it.each(CONFIGURATIONS.filter(({ isQuick }) => isQuick))(
    "finds no broken property in $name, in as many states as the page says",
    async (one) => {
      const { broken, states } = await verify(one);
      const before = kept().configurations.find(({ name }) => name === one.name);
      expect({ broken, states }).toEqual({ broken: null, states: before?.states });
    },
  );

  it.each(VARIANTS.filter(({ isQuick }) => isQuick))("finds what $name breaks", async (one) => {
    const { broken, story } = await verify(one);
    expect(broken).toBe(one.breaks);
    expect(story).not.toEqual([]);
  });

  it("takes every step of the model in random walks", () => {
    const walks = ["-DCRASHES=0", "-DSLOW_CLOCK", "-DSESSIONS", "-DLOADS"].flatMap((flag) =>
      Array.from({ length: 20 }, (_, at) => walk(at + 1, flag)),
    );
    const printed = new Set(walks.join("\n").split("\n"));
    const formats = [...model.matchAll(/printf\("([^"]+)\\n"/g)].map(([, format]) => format!);
    const never = formats.filter((format) => {
      const pattern = new RegExp(`^${format.replaceAll("%d", "\\d+").replaceAll("%e", "[A-Z]+")}$`);
      return ![...printed].some((line) => pattern.test(line));
    });
    expect(formats.length).toBeGreaterThan(20);
    expect(never).toEqual([expect.stringContaining("draws token")]);
  });
});

/** With wide bounds, since no state is kept. */
function walk(seed: number, flag: string): string {
  const bounds = ["-DLEASES=60", "-DTTL=6", "-DSESSION=8", "-DFAULTS=20", "-DREVOKES=50", flag];
  const args = [`-n${seed}`, "-u20000", "-T", ...bounds, `${folder}lease.pml`];
  return spawnSync("spin", args, { encoding: "utf8" }).stdout;
}

describe("a report", () => {
  it("says which property a configuration breaks, and how", () => {
    const report = kept();
    const [first] = report.configurations;
    Object.assign(first!, { broken: "TOKENS_GROW", story: ["store: a step"] });
    expect(isAsExpected(report)).toBe(false);
    expect(textOf(report)).toMatch(/^small .* BREAKS TOKENS_GROW$/m);
    expect(textOf(report)).toMatch(/^TOKENS_GROW .* BROKEN /m);
    expect(textOf(report)).toContain("small:\n   1  store: a step");
  });

  it("fails if a variant breaks nothing, or breaks another one", () => {
    for (const broken of [null, "IN_ORDER"]) {
      const report = kept();
      Object.assign(report.variants[0]!, { broken });
      expect(isAsExpected(report)).toBe(false);
    }
    const report = kept();
    Object.assign(report.variants[0]!, { broken: null });
    expect(textOf(report)).toMatch(/^NO_FENCE .* NOTHING FAILED /m);
  });
});

describe("a story", () => {
  const trail = [
    "ltl GRANTED_AT_LAST: [] (<> 1)",
    "  - tick",
    "  - tick",
    "store: RENEW from client 0: RENEWED, token 1, 1 ticks left",
    "store: ACQUIRE from client 1: HELD, token 0, 0 ticks left",
    "broken: IN_ORDER",
    "spin: trail ends after 9 steps",
    "client 1: is not part of it",
  ];

  it("is what the model prints until the property is broken, ticks added up", () => {
    expect(storyOf(trail.join("\n"), false)).toEqual({
      broken: "IN_ORDER",
      story: [
        "- 2 ticks",
        "store: RENEW from client 0: RENEWED, token 1, 1 tick left",
        "store: ACQUIRE from client 1: HELD",
      ],
    });
  });

  it("goes round a cycle once", () => {
    const round = ["client 0: asks", "- tick", "store: refuses"];
    const lines = [...round, "<<<<<START OF CYCLE>>>>>", ...round, ...round, "spin: trail ends"];
    expect(storyOf(lines.join("\n"), true).story).toEqual([
      "client 0: asks",
      "store: refuses",
      "from here on, for ever:",
      "client 0: asks",
      "store: refuses",
    ]);
  });
});

describe("npm run verify -- spin", () => {
  const run = (args: string[], env = process.env) =>
    spawnSync(process.execPath, [`${folder}main.js`, ...args], { encoding: "utf8", env });

  it("says what to install if spin and gcc are missing", () => {
    const { status, stderr } = run([], { PATH: "" });
    expect(stderr).toBe("spin and gcc not found; on Debian: apt-get install spin gcc libc6-dev\n");
    expect(status).toBe(69);
  });

  it("refuses names and numbers that it does not know", () => {
    const { status, stderr } = run(["NO_SUCH", "--jobs", "0"]);
    expect(stderr).toContain("there is no configuration or variant named NO_SUCH\n");
    expect(stderr).toContain("--jobs must be a whole number from 1 on\n");
    expect(status).toBe(64);
  });

  it("lists configurations and variants in its help", () => {
    const { status, stdout } = run(["--help"]);
    for (const { name } of [...CONFIGURATIONS, ...VARIANTS]) expect(stdout).toContain(`  ${name} `);
    expect(status).toBe(0);
  });
});

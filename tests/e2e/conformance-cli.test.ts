/** `leasehold conformance` by real processes: on stores of the package, and on stores that are broken. */
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freshPglite } from "../support/engines/pglite.js";
import { Cli, checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

beforeAll(checkBuild);
afterAll(() => endAll());

const own = (name: string) =>
  fileURLToPath(new URL(`../support/engines/own-stores/${name}.js`, import.meta.url));
const conformance = (...args: string[]) => leasehold(["conformance", ...args]);

interface Report {
  readonly store: string;
  readonly conforms: boolean | null;
  readonly passed: number;
  readonly failed: number;
  readonly notApplicable: number;
  readonly notRun: number;
  readonly section: string | null;
  readonly capabilities: { readonly clock: string };
  readonly results: readonly {
    readonly section: string;
    readonly name: string;
    readonly verdict: "pass" | "fail" | "not applicable";
    readonly ms: number;
    readonly reason?: string;
    readonly error?: string;
    readonly alone?: string;
  }[];
}

/** Runs with --json. */
async function readReport(...args: string[]): Promise<Report & { code: number | string }> {
  const { code, stdout, stderr } = await conformance(...args, "--json");
  expect(stdout, stderr).toMatch(/^\{.*\}$/);
  return { code, ...(JSON.parse(stdout) as Report) };
}

describe.concurrent("a store that conforms", () => {
  it("passes, property by property", async () => {
    const { code, stdout, stderr } = await conformance("--store", "memory:");
    expect(code).toBe(0);
    expect(stderr).toContain("grants in namespaces suite-... of memory:");
    expect(stdout).toMatch(/^verdict +time +property$/m);
    expect(stdout).toMatch(/^pass +\d+m?s +release: frees at once$/m);
    expect(stdout).toMatch(/^not applicable +tokens: .* \(its contents do not outlive it\)$/m);
    expect(stdout).toMatch(/^memory: declares clock: store, grants: portable, ttl 1 to /m);
    expect(stdout).toMatch(/^\d+ passed, 0 failed, \d+ not applicable in [\d.]+m?s$/m);
  });

  it("passes on PGlite too, with a report in JSON", async ({ onTestFinished }) => {
    const { directory, remove } = await freshPglite();
    onTestFinished(remove);
    const store = `pglite:${directory}`;
    const { code, results, ...report } = await readReport("--store", store, "--section", "tokens");
    expect(report).toMatchObject({
      store,
      conforms: null,
      failed: 0,
      section: "tokens",
      capabilities: { clock: "store" },
    });
    expect(report.notRun).toBeGreaterThan(results.length);
    expect(code).toBe(0);
    expect(results).toHaveLength(report.passed + report.notApplicable);
    const reasons = new Map(
      results.filter(({ reason }) => reason).map(({ name, reason }) => [name, reason]),
    );
    expect(reasons.get("grow over the collection of ended records")).toBe(
      "it would delete ended records of all namespaces",
    );
    expect(results).toContainEqual({
      section: "tokens",
      name: "grow over an expiry",
      verdict: "pass",
      ms: expect.any(Number),
    });
  });

  it("is held to more by a module that moves its clock, and with --collect", async () => {
    const report = await readReport("--module", own("own-clock"), "--collect");
    const { code, results } = report;
    expect({ ...report, code }).toMatchObject({
      code: 0,
      conforms: true,
      notRun: 0,
      section: null,
    });
    const passed = results.filter(({ verdict }) => verdict === "pass").map(({ name }) => name);
    expect(passed).toContain("grow over the collection of ended records");
    expect(passed).toContain("holds for random commands and times");
  });

  it("is held to one section alone", async () => {
    const { code, results } = await readReport("--store", "memory:", "--section", "get and list");
    expect(code).toBe(0);
    expect(new Set(results.map(({ section }) => section))).toEqual(new Set(["get and list"]));
    const { stdout } = await conformance("--store", "memory:", "--section", "get and list");
    expect(stdout).toMatch(
      /^section "get and list" passes; \d+ sections did not run, so this is no/m,
    );
  });
});

describe.concurrent("a store that does not", () => {
  it("fails, with what is wrong and how to see it alone", async () => {
    const module = own("still-tokens");
    const { code, stdout } = await conformance("--module", module, "--section", "tokens");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^fail +\d+m?s +tokens: grow over releases, also for the same holder$/m);
    expect(stdout).toMatch(/^pass +\d+m?s +tokens: stay the same over renewals$/m);
    const story = [
      "FAILED tokens: grow over releases, also for the same holder",
      "  expected 1 to be greater than 1",
      `  alone: leasehold conformance --module ${module} --section tokens`,
    ];
    expect(stdout).toContain(story.join("\n"));
    expect(stdout).toMatch(/^\d passed, [1-9] failed, \d+ not applicable in [\d.]+m?s$/m);

    const verbose = await conformance("--module", module, "--section", "tokens", "--verbose");
    expect(verbose.stdout).toMatch(/^ +at .*lease-suite\/tokens\.js/m);
    const { conforms, results } = await readReport("--module", module, "--section", "tokens");
    expect(conforms).toBe(false);
    expect(results.find(({ name }) => name === "grow over an expiry")).toMatchObject({
      verdict: "fail",
      error: "expected 1 to be greater than 1",
      alone: story[2]?.slice(9),
    });
  });

  it("reports what it has tested so far on Ctrl-C", async () => {
    const cli = new Cli(["conformance", "--module", own("hanging")]);
    await cli.until(({ err }) => err.includes("renew"));
    const { code, stdout } = await cli.end("SIGINT");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^pass +\d+m?s +acquire: answers who holds a key that is taken$/m);
    expect(stdout).toMatch(/^\d+ passed, 0 failed, .*; interrupted, \d+ have not run$/m);
  });
});

describe.concurrent("a store whose close never settles", () => {
  it("has its results printed on Ctrl-C", async () => {
    const cli = new Cli(["conformance", "--module", own("unclosed"), "--section", "release"]);
    await cli.until(({ err }) => err.includes("closing"));
    const { code, stdout, stderr } = await cli.end("SIGTERM");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^\d passed, 0 failed/m);
    expect(stderr).toMatch(/^leasehold: the store was not closed: interrupted$/m);
  });
});

describe.concurrent("what cannot be tested is said in a sentence", () => {
  it.each<[what: string, args: string[], code: number, said: RegExp]>([
    ["no store", [], 64, /^leasehold: no store to test: pass --store URL, or --module FILE/],
    [
      "two stores",
      ["--store", "memory:", "--module", "x.js"],
      64,
      /^leasehold: --store and --module/,
    ],
    ["no such file", ["--module", "x.js"], 64, /^leasehold: there is no file .*x\.js$/],
    [
      "no store in it",
      ["--module", own("without-fast-check")],
      64,
      /must export a function `open`/,
    ],
    [
      "half a store",
      ["--module", own("unfinished")],
      64,
      /has no capabilities, renew, release, revoke, get, list, watch, collect: the module must export/,
    ],
    [
      "no such section",
      ["--store", "memory:", "--section", "x"],
      64,
      /^leasehold: there is no section "x": acquire, tokens, .*, close$/,
    ],
    [
      "nothing to collect",
      ["--store", "memory:", "--section", "acquire", "--collect"],
      64,
      /^leasehold: --collect has no effect on this section: only on "tokens" and /,
    ],
    [
      "no such engine",
      ["--store", "x:"],
      64,
      /^leasehold: INVALID_OPTION: --store must begin with/,
    ],
    [
      "no server",
      ["--store", "postgres://127.0.0.1:1/x"],
      69,
      /^leasehold: STORE_UNAVAILABLE: [^\n]*\n {2}what to do: [^\n]*$/,
    ],
  ])("%s", async (_, args, code, said) => {
    const ended = await conformance(...args);
    expect(ended.stderr).toMatch(said);
    expect(ended).toMatchObject({ code, stdout: "" });
  });

  it("a server, which knows one namespace", async () => {
    const { url } = await serve();
    const { code, stderr } = await conformance("--store", url);
    expect({ code, stderr }).toEqual({
      code: 64,
      stderr: expect.stringContaining(
        `leasehold: the suite needs its own namespaces, and the store behind ${url} supports only one: test the engine itself`,
      ),
    });
  });

  it("no fast-check", async () => {
    const hook = pathToFileURL(own("without-fast-check")).href;
    const ended = await leasehold(["conformance", "--store", "memory:"], {
      env: { NODE_OPTIONS: `--import ${hook}` },
    });
    expect(ended).toEqual({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining(
        "leasehold: the suite needs the package fast-check: npm install --save-dev fast-check",
      ),
    });
  });
});

it("has a help with examples", async () => {
  const { code, stdout } = await conformance("--help");
  expect(code).toBe(0);
  expect(stdout).toContain("  leasehold conformance --module ./my-store.js --collect");
});

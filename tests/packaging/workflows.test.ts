/** The files of GitHub, which nothing here runs: they are read as GitHub does, and hold our rules. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type * as Parser from "@actions/workflow-parser";
import { createServer, type ViteDevServer } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { PUBLISHED } from "../../scripts/support/packages.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const filesIn = (folder: string) =>
  readdirSync(join(root, folder)).map((name) => `${folder}/${name}`);
const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}
interface Job {
  readonly uses?: string;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly "timeout-minutes"?: number;
  readonly steps?: readonly Step[];
}
interface Workflow {
  readonly permissions?: unknown;
  readonly jobs: Readonly<Record<string, Job>>;
}

const PINNED = /uses: ([\w-]+\/[\w-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+$/;
const LOCAL = /uses: \.\/(\S+)$/;

/** What breaks our rules. */
function problemsOf(text: string): string[] {
  const workflow = parse(text) as Workflow;
  const jobs = Object.entries(workflow.jobs);
  const steps = jobs.flatMap(([, job]) => job.steps ?? []);
  const found: string[] = [];
  if (JSON.stringify(workflow.permissions) !== "{}") found.push("permissions are not {}");
  for (const line of text.split("\n").filter((line) => /\buses:/.test(line))) {
    const local = LOCAL.exec(line)?.[1];
    if (local === undefined ? !PINNED.test(line) : !existsSync(join(root, local)))
      found.push(`not pinned: ${line.trim()}`);
  }
  for (const [name, job] of jobs) {
    if (job.permissions === undefined) found.push(`${name} states no permissions`);
    if (!job.uses && !job["timeout-minutes"]) found.push(`${name} has no timeout`);
  }
  for (const { uses = "", with: options } of steps) {
    if (uses.startsWith("actions/checkout@") && options?.["persist-credentials"] !== false)
      found.push("a checkout leaves its token behind");
  }
  for (const { run = "" } of steps) {
    // The shell would run what an author of a pull request has put there.
    if (run.includes("${{")) found.push(`an expression in a script: ${run}`);
    for (const [, script = ""] of run.matchAll(/\bnpm run (?:--?\w+ )*([\w:-]+)/g))
      if (!(script in scripts)) found.push(`no script ${script}`);
    for (const [path = ""] of run.matchAll(/(?<![\w/])(?:scripts|tests|\.ci)\/[\w./-]+/g))
      if (!existsSync(join(root, path))) found.push(`no file ${path}`);
  }
  return found;
}

const workflows = filesIn(".github/workflows");

describe.each(workflows)("%s", (path) => {
  it("is pinned, states its rights, and names scripts that exist", () => {
    expect(problemsOf(read(path))).toEqual([]);
  });
});

it("pins each action to one commit", () => {
  const pins = workflows.flatMap((path) =>
    [...read(path).matchAll(new RegExp(PINNED, "gm"))].map(([, action, commit]) => [
      action,
      commit,
    ]),
  );
  const commits = new Set(pins.map((pin) => pin.join("@")));
  expect(commits.size).toBe(new Set(pins.map(([action]) => action)).size);
});

describe("the rules catch", () => {
  const text = read(".github/workflows/ci.yml");
  const plant = (from: string | RegExp, to: string) => {
    const planted = text.replace(from, to);
    expect(planted).not.toBe(text);
    return problemsOf(planted);
  };
  it.each([
    ["a tag", /@[0-9a-f]{40} # v/, "@v", "not pinned: - uses: actions/checkout@v7.0.1"],
    ["a pin without its version", / # v7\.0\.1/, "", /^not pinned: /],
    [
      "rights of a whole workflow",
      "permissions: {}",
      "permissions: read-all",
      "permissions are not {}",
    ],
    [
      "a job without rights",
      /\n {4}permissions:\n {6}contents: read/,
      "",
      "check states no permissions",
    ],
    ["a job without a timeout", /\n {4}timeout-minutes: 30/, "", "check has no timeout"],
    ["a token that stays", "persist-credentials: false", "fetch-depth: 1", /leaves its token/],
    [
      "an injection",
      "npm run check",
      "echo $".concat("{{ github.head_ref }}"),
      /an expression in a script/,
    ],
    ["a script that is gone", "npm run check", "npm run chekc", "no script chekc"],
    ["a file that is gone", "run: .ci/run", "run: .ci/gone", "no file .ci/gone"],
  ])("%s", (_what, from, to, problem) => {
    expect(plant(from, to)).toContainEqual(
      typeof problem === "string" ? problem : expect.stringMatching(problem),
    );
  });
});

describe("as GitHub reads them", () => {
  let vite: ViteDevServer;
  let errorsOf: (name: string, content: string) => string[];
  beforeAll(async () => {
    // The parser imports JSON as a bundler takes it, and Node does not.
    vite = await createServer({
      root,
      configFile: false,
      appType: "custom",
      logLevel: "error",
      server: { middlewareMode: true, watch: null, ws: false },
      optimizeDeps: { noDiscovery: true },
      ssr: { noExternal: [/^@actions\//] },
    });
    const parser = (await vite.ssrLoadModule("@actions/workflow-parser")) as typeof Parser;
    errorsOf = (name, content) => {
      const trace = new parser.NoOperationTraceWriter();
      const { context } = parser.parseWorkflow({ name, content }, trace);
      return context.errors.getErrors().map((error) => error.message);
    };
  });
  afterAll(() => vite.close());

  it.each(workflows)("%s has no mistake", (path) => {
    expect(errorsOf(path, read(path))).toEqual([]);
  });

  it("finds a key that does not exist, and a name in an expression", () => {
    const text = read(".github/workflows/ci.yml");
    expect(errorsOf("a.yml", text.replace("runs-on:", "run-on:"))).not.toEqual([]);
    expect(errorsOf("a.yml", text.replace("matrix.node", "matrx.node"))).not.toEqual([]);
  });
});

describe("a release", () => {
  const { jobs } = parse(read(".github/workflows/release.yml")) as Workflow;

  it("lets the job alone that publishes ask for an identity, and runs no code of the repository there", () => {
    const asking = Object.entries(jobs).filter(([, job]) => job.permissions?.["id-token"]);
    expect(asking.map(([name]) => name)).toEqual(["publish"]);
    const steps = jobs["publish"]?.steps ?? [];
    expect(steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"))).toEqual([]);
    expect(steps.some(({ run }) => run?.includes("--provenance"))).toBe(true);
    expect(steps.some(({ uses }) => uses?.startsWith("actions/attest-build-provenance@"))).toBe(
      true,
    );
  });

  it("publishes all packages in the order in which they need each other", () => {
    const publish = jobs["publish"]?.steps?.map(({ run = "" }) => run).join("\n") ?? "";
    expect(/for name in (.+); do/.exec(publish)?.[1]?.split(" ")).toEqual(PUBLISHED);
  });
});

it("has forms for issues that GitHub accepts", () => {
  const forms = filesIn(".github/ISSUE_TEMPLATE").filter((path) => !path.endsWith("config.yml"));
  expect(forms).toHaveLength(3);
  for (const path of forms) {
    const { name, description, body } = parse(read(path)) as {
      name: string;
      description: string;
      body: { type: string; id?: string; attributes: { label?: string; value?: string } }[];
    };
    expect(name, path).toBeTruthy();
    expect(description, path).toBeTruthy();
    const fields = body.filter(({ type }) => type !== "markdown");
    for (const { type, id, attributes } of fields) {
      expect(["input", "textarea", "dropdown", "checkboxes"], path).toContain(type);
      expect(id, path).toMatch(/^[\w-]+$/);
      expect(attributes.label, path).toBeTruthy();
    }
    expect(new Set(fields.map(({ id }) => id)).size).toBe(fields.length);
  }
});

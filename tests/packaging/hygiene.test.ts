/** What no compiler sees: words that must not stand in the repository, and links that lead nowhere. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { deadLinks, REPOSITORY, readHere } from "../support/documents/links.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** What is forbidden, and where; this file, which must name it all, is spared. */
const FORBIDDEN: readonly { what: string; pattern: RegExp; where?: RegExp }[] = [
  { what: "path of one machine", pattern: /(^|[\s"'`(=:])\/(work|root|home|Users)\/\w/ },
  {
    what: "host of a registry",
    pattern: /\bregistry\.[\w-]+\.\w|\bdeb\.debian\.org|"resolved": *"http/,
  },
  { what: "test that stands alone", pattern: /\.only\(/, where: /\.test\.ts$/ },
  { what: "test that is only planned", pattern: /\.todo\(/, where: /\.test\.ts$/ },
  { what: "note to self", pattern: /\b(TODO|FIXME|XXX|HACK)\b/, where: /\.(ts|js|md|sql)$|\/run$/ },
  { what: "reference to a paper outside", pattern: /\bseeds? 0\d\d\b/i },
  { what: "mark of a merge", pattern: /^(<{7}|>{7}) / },
];

interface Finding {
  readonly line: number;
  readonly what: string;
}

function findForbidden(path: string, text: string): Finding[] {
  const rules = FORBIDDEN.filter(({ where }) => !where || where.test(path));
  return text
    .split("\n")
    .flatMap((line, index) =>
      rules
        .filter(({ pattern }) => pattern.test(line))
        .map(({ what }) => ({ line: index + 1, what })),
    );
}

const paths = execFileSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], {
  cwd: root,
  encoding: "utf8",
})
  .split("\0")
  .filter((path) => path !== "" && existsSync(join(root, path)));
const read = (path: string) => readFileSync(join(root, path), "utf8");

it("finds nothing forbidden in the repository", () => {
  expect(paths.length).toBeGreaterThan(20);
  const found = paths
    .filter((path) => path !== "tests/packaging/hygiene.test.ts")
    .flatMap((path) =>
      findForbidden(path, read(path)).map(({ line, what }) => `${path}:${line} ${what}`),
    );
  expect(found.join("\n")).toBe("");
});

it("finds no dead link in the documents", () => {
  const found = paths
    .filter((path) => path.endsWith(".md"))
    .flatMap((path) =>
      deadLinks(path, read(path), readHere).map(({ line, link }) => `${path}:${line} ${link}`),
    );
  expect(found.join("\n")).toBe("");
});

it("finds no command of npm that is gone", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: object };
  const list = execFileSync(process.execPath, ["verification/main.js"], {
    cwd: root,
    encoding: "utf8",
  });
  const campaigns = [...list.matchAll(/^ {2}([a-z-]+) {2,}/gm)].map(([, name]) => name);
  expect(campaigns).toContain("sim");
  const isGone = (name: string, first: string | undefined) =>
    !(name in scripts) || (name === "verify" && first !== undefined && !campaigns.includes(first));
  const found = paths
    .filter((path) => /^(\w+\.md|\.ci\/|(docs|verification|bench|scripts|deploy)\/)/.test(path))
    .filter((path) => !path.endsWith(".json"))
    .flatMap((path) =>
      [...read(path).matchAll(/\bnpm run (?:--silent )?([\w:-]+)(?: -- ([a-z][\w-]*))?/g)]
        .filter(([, name = "", first]) => isGone(name, first))
        .map(([command]) => `${path}: ${command}`),
    );
  expect(found.join("\n")).toBe("");
});

it("finds a section for every error code, and no other", () => {
  const [, union = ""] =
    /export type ErrorCode =([^;]+);/.exec(read("packages/leasehold/src/lease/errors.ts")) ?? [];
  const codes = [...union.matchAll(/"(\w+)"/g)].map(([, code = ""]) => code);
  expect(codes).toContain("LEASE_LOST");
  const sections = [...read("docs/errors.md").matchAll(/^## +(\w+)$/gm)].map(
    ([, code = ""]) => code,
  );
  expect(sections.sort()).toEqual(codes.sort());
});

it.each([
  ["a.ts", 'const a = "/home/someone/b";', "path of one machine"],
  ["a.json", '"resolved": "https://registry.example.org/a.tgz"', "host of a registry"],
  ["a.test.ts", 'it.only("a", () => {});', "test that stands alone"],
  ["a.test.ts", 'it.todo("a");', "test that is only planned"],
  ["a.md", "TODO: write this", "note to self"],
  ["a.md", "as in seed 000", "reference to a paper outside"],
  ["a.ts", "<<<<<<< HEAD", "mark of a merge"],
])("forbids in %s: %s", (path, line, what) => {
  expect(findForbidden(path, `\n${line}`)).toContainEqual({ line: 2, what });
});

it("tells live links from dead ones", () => {
  const files: Record<string, string> = {
    "docs/b.md": "# Some Title (1)\n# Twice\n# Twice\n# [Linked](c.md)\n",
    LICENSE: "",
  };
  const judge = (text: string) => deadLinks("docs/a.md", text, (path) => files[path] ?? null);
  expect(judge("[b](b.md) [b](b.md#some-title-1) [l](../LICENSE) [w](https://a.b/c)")).toEqual([]);
  expect(judge("[b](b.md#twice-1) [b](b.md#linked)\n\n[b]: b.md")).toEqual([]);
  expect(judge(`[b](${REPOSITORY}/blob/main/docs/b.md#twice) [i](${REPOSITORY}/issues)`)).toEqual(
    [],
  );
  expect(judge("`[c](c.md)`\n```\n[c](c.md)\n```\n")).toEqual([]);
  const dead = (link: string) => ({ line: 2, link });
  expect(judge("\n[c](c.md)")).toEqual([dead("c.md")]);
  expect(judge("\n[c]: c.md")).toEqual([dead("c.md")]);
  expect(judge('\n<img alt="" src="c.png">')).toEqual([dead("c.png")]);
  expect(judge("\n[b](b.md#gone)")).toEqual([dead("b.md#gone")]);
  expect(judge("\n[b](b.md#twice-2)")).toEqual([dead("b.md#twice-2")]);
  expect(judge("# Here\n[h](#here) [t](#there)")).toEqual([dead("#there")]);
  const gone = `${REPOSITORY}/blob/main/docs/b.md#gone`;
  expect(judge(`\n[b](${gone}) [b](${REPOSITORY}/tree/main/docs/c)`)).toEqual([
    dead(gone),
    dead(`${REPOSITORY}/tree/main/docs/c`),
  ]);
});

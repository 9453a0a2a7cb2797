/** What no compiler sees: words that must not stand in the repository, and links that lead nowhere. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

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

/** Relative links of a Markdown text that lead to no file, or to no heading of a Markdown file. */
function findDeadLinks(
  path: string,
  text: string,
  read: (path: string) => string | null,
): Finding[] {
  const prose = text.replace(/^(```|~~~)[\s\S]*?^\1/gm, (block) => block.replace(/[^\n]/g, ""));
  return prose.split("\n").flatMap((line, index) =>
    [...line.replace(/`[^`]*`/g, "").matchAll(/\]\(<?([^)\s>]+)/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !/^[a-z][a-z+.-]*:/i.test(link))
      .filter((link) => {
        const [file = "", anchor] = link.split("#");
        const target = file === "" ? path : join(dirname(path), file);
        const content = target === path ? text : read(target);
        if (content === null) return true;
        return anchor !== undefined && target.endsWith(".md") && !anchorsOf(content).has(anchor);
      })
      .map((link) => ({ line: index + 1, what: `dead link: ${link}` })),
  );
}

function anchorsOf(markdown: string): Set<string> {
  const headings = [...markdown.matchAll(/^#{1,6} +(.+)$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, "")
        .trim()
        .replace(/\s/g, "-"),
    ),
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
  const content = (path: string) => {
    if (!existsSync(join(root, path))) return null;
    return path.endsWith(".md") ? read(path) : "";
  };
  const found = paths
    .filter((path) => path.endsWith(".md"))
    .flatMap((path) =>
      findDeadLinks(path, read(path), content).map(({ line, what }) => `${path}:${line} ${what}`),
    );
  expect(found.join("\n")).toBe("");
});

it("finds a section for every error code, and no other", () => {
  const [, union = ""] =
    /export type ErrorCode =([^;]+);/.exec(read("packages/leasehold/src/core/errors.ts")) ?? [];
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
  const files: Record<string, string> = { "docs/b.md": "# Some Title (1)\n", LICENSE: "" };
  const judge = (text: string) => findDeadLinks("docs/a.md", text, (path) => files[path] ?? null);
  expect(judge("[b](b.md) [b](b.md#some-title-1) [l](../LICENSE) [w](https://a.b/c)")).toEqual([]);
  expect(judge("`[c](c.md)`\n```\n[c](c.md)\n```\n")).toEqual([]);
  expect(judge("\n[c](c.md)")).toEqual([{ line: 2, what: "dead link: c.md" }]);
  expect(judge("[b](b.md#gone)")).toEqual([{ line: 1, what: "dead link: b.md#gone" }]);
  expect(judge("# Here\n[h](#here) [t](#there)")).toEqual([{ line: 2, what: "dead link: #there" }]);
});

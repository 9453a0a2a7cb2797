/** ARCHITECTURE.md names files, package entries and code, and draws the layers. All of it exists. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { LIBRARY } from "../packaging/layers/rules.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const LIBRARY_SOURCES = "packages/leasehold/src/";
/** A section that uses other paths begins with this sentence. */
const BASE = /^Paths in this section begin in `([^`]+)`/m;
/** The document writes NAME for a name that the reader chooses. */
const CHOSEN = "NAME";
const FILE = /^([\w.@/-]+\.(ts|tsx|js|json|md|sql|lua|yml)|\.[\w-]+\/[\w/-]+)$/;
const FOLDER = /^[\w.@/-]+\/$/;
const ENTRY = /^leasehold(-server)?(\/[\w/-]+)?$/;
const CODE = /^(packages|verification|tests)\/.*\.(ts|tsx|js|sql|lua|json)$/;
const IDENTIFIER = /^#?[A-Za-z_]\w*$/;

const tracked = execFileSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" }).split(
  "\0",
);
const basenames = new Set(tracked.map((path) => basename(path)));
const text = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");

/** The sections of a document, each with the folder in which its paths begin. */
function sectionsOf(markdown: string): { base: string; body: string }[] {
  return markdown
    .split(/^(?=##+ )/m)
    .map((body) => ({ base: BASE.exec(body)?.[1] ?? LIBRARY_SOURCES, body }));
}

/** The code spans of a section, and the words of its diagrams. */
function namesIn(body: string): { spans: string[]; words: string[] } {
  const blocks = [...body.matchAll(/^```\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
  const prose = body.replace(/^```\n[^]*?^```$/gm, "");
  const spans = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, span = ""]) => span);
  return { spans, words: blocks.flatMap((block) => block.split(/[\s,]+/)) };
}

function exists(path: string): boolean {
  return path
    .split("/")
    .filter((segment) => segment !== "")
    .reduce<string[]>(
      (folders, segment) => folders.flatMap((folder) => below(folder, segment)),
      [""],
    )
    .some((found) => !path.endsWith("/") || isFolder(found));
}

/** The entries of a folder that a segment of a path names: several where it contains NAME. */
function below(folder: string, segment: string): string[] {
  if (!isFolder(folder)) return [];
  const [before = "", after] = segment.split(CHOSEN);
  return readdirSync(join(root, folder))
    .filter((name) =>
      after === undefined ? name === segment : name.startsWith(before) && name.endsWith(after),
    )
    .map((name) => join(folder, name));
}

function isFolder(path: string): boolean {
  try {
    readdirSync(join(root, path));
    return true;
  } catch {
    return false;
  }
}

function missingPaths(markdown: string): string[] {
  return sectionsOf(markdown).flatMap(({ base, body }) => {
    const { spans, words } = namesIn(body);
    const paths = [...spans, ...words].filter((name) => FILE.test(name) || FOLDER.test(name));
    return paths.filter(
      // A name without a folder is one that several folders have, or whose folder the sentence says.
      (path) => !basenames.has(path) && !exists(path) && !exists(base + path),
    );
  });
}

it("names only files and folders that exist", () => {
  const { spans } = namesIn(text);
  expect(spans.filter((span) => FILE.test(span)).length).toBeGreaterThan(100);
  expect(missingPaths(text)).toEqual([]);
});

it("finds a path that does not exist, and takes NAME for any name", () => {
  const server = "Paths in this section begin in `packages/leasehold-server/src/`.";
  const markdown = [
    "`lease/rules.ts` `lease/gone.ts` `README.md` `gone/` `stores/NAME/` `stores/NAME/gone.ts`",
    "```\nlease/gone.ts ─▶ lease/port.ts, port.ts, gone.ts\n```",
    `## Server\n${server} \`http/app.ts\` \`lease/rules.ts\``,
  ].join("\n\n");
  expect(missingPaths(markdown)).toEqual([
    "lease/gone.ts",
    "gone/",
    "stores/NAME/gone.ts",
    "lease/gone.ts",
    "gone.ts",
    "lease/rules.ts",
  ]);
});

it("names only entries that a package exports", () => {
  const entries = ["leasehold", "leasehold-server"].flatMap((name) => {
    const manifest = readFileSync(join(root, "packages", name, "package.json"), "utf8");
    const { exports } = JSON.parse(manifest) as { exports: Record<string, unknown> };
    return Object.keys(exports).map((subpath) => name + subpath.slice(1));
  });
  const named = namesIn(text).spans.filter((span) => ENTRY.test(span));
  expect(named).toContain("leasehold/internal/wire");
  expect(named.filter((name) => !entries.includes(name))).toEqual([]);
});

it("uses only names that the code has", () => {
  const code = tracked
    .filter((path) => CODE.test(path) && !path.startsWith("tests/docs/"))
    .map((path) => readFileSync(join(root, path), "utf8"));
  const known = new Set(code.join("\n").match(/#?[A-Za-z_]\w*/g));
  const named = namesIn(text).spans.filter((span) => IDENTIFIER.test(span));
  expect(named).toContain("LocalQueue");
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});

it("draws no folder of the library above one that imports it", () => {
  const [, diagram = ""] = /^```\n([^`]*packages\/leasehold\/src\n[^`]*)^```$/m.exec(text) ?? [];
  const rows = diagram
    .slice(diagram.indexOf(LIBRARY_SOURCES.slice(0, -1)))
    .split("\n")
    .slice(1);
  const rowOf = new Map(
    rows.flatMap((row, index) =>
      (/^ {6}(.*?)(?: {4,}|$)/.exec(row)?.[1] ?? "")
        .split(/ +/)
        .map((name) => [name.replace(/\.ts$/, ""), index] as const),
    ),
  );
  const drawn = (unit: string) => rowOf.get(unit) ?? rowOf.get(unit.split("/")[0] ?? "");
  const upward = Object.entries(LIBRARY.mayImport).flatMap(([unit, imports]) =>
    imports
      .filter((imported) => imported.split("/")[0] !== unit.split("/")[0])
      .filter((imported) => (drawn(imported) ?? Infinity) <= (drawn(unit) ?? -1))
      .map((imported) => `${unit} imports ${imported}`),
  );
  expect(rowOf.has("lease")).toBe(true);
  expect(upward).toEqual([]);
});

/**
 * What npm packs, against a list for each package in `contents/`: a file that slips in, or is left out, changes it. A folder of
 * modules is one line there, since its modules are those of the sources, and so are the chunks that a bundler names by their
 * content.
 */
import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { PUBLISHED } from "../../scripts/support/packages.js";
import { brokenWherePacked, deadLinks, REPOSITORY, readHere } from "../support/documents/links.js";
import { checkBuild } from "../support/processes/cli.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const COMMAND = "UPDATE_GOLDEN=1 npx vitest run tests/packaging/contents.test.ts";
const UPDATES = process.env["UPDATE_GOLDEN"] === "1";
/** What Vite makes of the console and the simulator. */
const CHUNK = /^(dist\/web\/assets\/(?:(?:simulator|shared)\/)?)[\w-]+(\.\w+)$/;

describe.each(PUBLISHED)("%s", (name) => {
  const folder = join(root, "packages", name);
  const list = join(root, "tests/packaging/contents", `${name}.txt`);
  let files: string[];
  let modules: string[];
  beforeAll(async () => {
    checkBuild();
    const pack = ["pack", "--dry-run", "--ignore-scripts", "--json"];
    const { stdout } = await promisify(execFile)("npm", pack, { cwd: folder });
    const [packed] = JSON.parse(stdout) as [{ files: { path: string }[] }];
    files = packed.files.map(({ path }) => path);
    const sources = await readdir(join(folder, "src"), { recursive: true });
    modules = sources
      .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
      .flatMap((path) => [".d.ts", ".js"].map((end) => `dist/${path.slice(0, -3)}${end}`));
  });

  it("has every module of the sources", () => {
    expect(modules.filter((path) => !files.includes(path))).toEqual([]);
  });

  it("has what its list says, and nothing else", () => {
    const built = new Set(modules);
    const named = files.map((path) =>
      built.has(path)
        ? `${dirname(path)}/*.{js,d.ts}`
        : path.replace(CHUNK, (_path, before, after) => `${before}*${after}`),
    );
    const text = [...new Set(named)].sort().join("\n").concat("\n");
    if (UPDATES) writeFileSync(list, text);
    const golden = existsSync(list) ? readFileSync(list, "utf8") : "";
    expect(text, `If this is intended: ${COMMAND}`).toBe(golden);
  });

  it("has Markdown files whose links work on npm and where they are installed", () => {
    const packed = new Set(files);
    const pages = files.filter((path) => path.endsWith(".md"));
    expect(pages).toContain("README.md");
    const broken = pages.flatMap((path) => {
      const text = readFileSync(join(folder, path), "utf8");
      const here = `packages/${name}/${path}`;
      const dead = deadLinks(here, text, (file) => readHere(file)).filter(({ link }) =>
        link.startsWith(REPOSITORY),
      );
      return [...brokenWherePacked(path, text, packed), ...dead].map(
        ({ line, link }) => `${path}:${line} ${link}`,
      );
    });
    expect(broken).toEqual([]);
  });
});

describe("a link of a packed file", () => {
  const files = new Set(["README.md", "docs/errors.md"]);
  it.each([
    ["CHANGELOG.md", "https://example.com/a", true],
    ["CHANGELOG.md", "docs/errors.md#here", true],
    ["CHANGELOG.md", "../leasehold/CHANGELOG.md", false],
    ["docs/errors.md", "upgrading.md", false],
    ["docs/errors.md", "#here", true],
    ["docs/errors.md", "#there", false],
    ["README.md", "#here", true],
    ["README.md", "docs/errors.md", false],
  ])("in %s to %s works: %s", (path, link, works) => {
    const broken = brokenWherePacked(path, `# Here\n[a](${link})\n`, files);
    expect(broken).toEqual(works ? [] : [{ line: 2, link }]);
  });
});

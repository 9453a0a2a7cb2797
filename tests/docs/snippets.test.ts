/**
 * The code that newcomers paste: it runs on every Node that the packages support, from 20 on, as it stands. Explicit
 * resource management (`await using`) is a syntax error before Node 24.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkBuild, endAll, ownEnvironment } from "../support/processes/cli.js";
import { Child } from "../support/processes/processes.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const BLOCK = /^```(?:js|ts)\b[^\n]*\n([^]*?)^```$/gm;
const DOCSTRING = /\/\*\*[^]*?\*\//g;
const USING = /(?:^|[;{}(])\s*(?:await\s+)?using\s+[\w$]+\s*(?:=|of\b)/m;

interface Text {
  readonly path: string;
  readonly text: string;
}

async function textsIn(folder: string, wanted: RegExp): Promise<Text[]> {
  const paths = await readdir(join(root, folder), { recursive: true });
  const found = paths.filter(
    (path) => wanted.test(path) && !/node_modules|dist|test\.ts$/.test(path),
  );
  return Promise.all(found.sort().map((path) => textOf(join(folder, path))));
}

async function textOf(path: string): Promise<Text> {
  return { path, text: await readFile(join(root, path), "utf8") };
}

const blocksOf = (text: string) => [...text.matchAll(BLOCK)].map(([, code = ""]) => code);

/** Pages of the documentation. */
const pages = [
  ...(await textsIn("docs", /^[^/]+\.md$/)),
  ...(await Promise.all(
    ["README.md", "packages/leasehold/README.md", "packages/leasehold-server/README.md"].map(
      textOf,
    ),
  )),
];

describe("no snippet uses `using`, which older Nodes cannot parse", () => {
  it("tells such code from other code", () => {
    const bad = [
      "await using a = b;",
      "{ using a = b; }",
      "for (await using a of b) {}",
      "  using $a = b",
    ];
    expect(bad.filter((code) => !USING.test(code))).toEqual([]);
    const good = [
      "await redlock.using(x)",
      "// while using it",
      "const using = 1;",
      "using(a) = b",
    ];
    expect(good.filter((code) => USING.test(code))).toEqual([]);
  });

  it("on a page or in a README", async () => {
    const others = await textsIn("packages", /README\.md$/);
    const guides = await textsIn("docs", /^(start|learn|choose|guides|articles)\/.*\.md$/);
    const texts = [...pages, ...guides, ...others, ...(await textsIn("examples", /\.md$/))];
    const snippets = texts.flatMap(({ path, text }) =>
      blocksOf(text).map((code) => ({ path, code })),
    );
    expect(snippets.length).toBeGreaterThan(30);
    expect(snippets.filter(({ code }) => USING.test(code))).toEqual([]);
  });

  it("in an example", async () => {
    const examples = await textsIn("examples", /\.[cm]?[jt]s$/);
    expect(examples.length).toBeGreaterThan(15);
    expect(examples.filter(({ text }) => USING.test(text)).map(({ path }) => path)).toEqual([]);
  });

  it("in a docstring", async () => {
    const sources = await textsIn("packages", /^[\w-]+\/src\/.*\.ts$/);
    const docstrings = sources.flatMap(({ path, text }) =>
      [...text.matchAll(DOCSTRING)].map(([comment]) => ({
        path,
        code: comment.replaceAll(/^ *\* ?/gm, ""),
      })),
    );
    expect(docstrings.length).toBeGreaterThan(500);
    expect(docstrings.filter(({ code }) => USING.test(code)).map(({ path }) => path)).toEqual([]);
  });
});

/** Needs a server that is not here; its own tests run the same calls. */
const NEEDS_SERVER = /from "(ioredis|pg)"|from "vitest"/;

describe("the first snippet of a page runs as it stands", () => {
  let folder: string;
  beforeAll(async () => {
    checkBuild();
    folder = await mkdtemp(join(tmpdir(), "leasehold-snippets-"));
    for (const used of ["leasehold", "leasehold-server", "@opentelemetry"]) {
      const link = join(folder, "node_modules", used);
      await mkdir(dirname(link), { recursive: true });
      await symlink(join(root, "node_modules", used), link);
    }
  });
  afterAll(async () => {
    await endAll();
    await rm(folder, { recursive: true });
  });

  const firsts = pages.flatMap(({ path, text }) => {
    const [, code] = /^```js\b[^\n]*\n([^]*?)^```$/m.exec(text) ?? [];
    return code === undefined ? [] : [{ path: relative(".", path), code }];
  });

  it.each(firsts.filter(({ code }) => !NEEDS_SERVER.test(code)))(
    "$path",
    async ({ path, code }) => {
      const name = `${path.replaceAll(/\W/g, "-")}.mjs`;
      await writeFile(join(folder, name), code);
      // A server would go on: to the end of the module is far enough.
      const words = ["--input-type=module", "-e", `await import("./${name}"); process.exit(0)`];
      const env = { ...ownEnvironment(), PORT: "0" };
      const { code: ended, stderr } = await new Child(process.execPath, words, { cwd: folder, env })
        .ended;
      expect({ ended, stderr }).toEqual({ ended: 0, stderr: "" });
    },
  );

  it("is not left out without need", () => {
    const left = firsts.filter(({ code }) => NEEDS_SERVER.test(code)).map(({ path }) => path);
    expect(left).toEqual(["docs/compat-redlock.md"]);
  });
});

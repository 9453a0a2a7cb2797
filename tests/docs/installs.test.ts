/** What the site shows for other package managers than npm, and which pages show it. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { installsOf } from "../../docs/.vitepress/installs.js";

const docs = fileURLToPath(new URL("../../docs", import.meta.url));

describe("a block that installs becomes", () => {
  it("the same with pnpm, yarn and bun", () => {
    expect(installsOf("npm install leasehold pg   # or ioredis\n")).toEqual({
      npm: "npm install leasehold pg   # or ioredis\n",
      pnpm: "pnpm add leasehold pg   # or ioredis\n",
      yarn: "yarn add leasehold pg   # or ioredis\n",
      bun: "bun add leasehold pg   # or ioredis\n",
    });
  });

  it("the same with the options of each", () => {
    expect(
      installsOf("npm install --save-dev typescript @types/node\nnpm install a\n"),
    ).toMatchObject({
      pnpm: "pnpm add --save-dev typescript @types/node\npnpm add a\n",
      yarn: "yarn add --dev typescript @types/node\nyarn add a\n",
      bun: "bun add --dev typescript @types/node\nbun add a\n",
    });
    expect(installsOf("npm create leasehold my-app -- --store postgres\n")).toEqual({
      npm: "npm create leasehold my-app -- --store postgres\n",
      pnpm: "pnpm create leasehold my-app --store postgres\n",
      yarn: "yarn create leasehold my-app --store postgres\n",
      bun: "bun create leasehold my-app --store postgres\n",
    });
    expect(installsOf("npm install a \\\n  b\n")?.["yarn"]).toBe("yarn add a \\\n  b\n");
  });

  it.each([
    "npm install",
    "npm install --global a",
    "npm install a && node b.js",
    "npm ci",
    "node a.js",
  ])("nothing else for %s", (code) => {
    expect(installsOf(code)).toBeNull();
  });
});

/** What has no counterpart in other package managers, or installs nothing of ours. */
const NPM_ALONE = [
  "npm install --global --prefix /usr/local leasehold-server pg",
  "npm install --prefix bench",
  // The same in pnpm and bun.
  ": npm install",
  // They also set `type` in package.json, for which yarn and bun have no command.
  "npm install leasehold pg next react react-dom",
  "npm install leasehold pg reflect-metadata",
];

it("is what each page shows that installs something", async () => {
  const pages = await readdir(docs, { recursive: true });
  const found: string[] = [];
  for (const page of pages.filter((path) =>
    /^(?!node_modules|reference|\.vite).*\.md$/.test(path),
  )) {
    const text = await readFile(join(docs, page), "utf8");
    for (const [, code = ""] of text.matchAll(/^```sh[^\n]*\n([^]*?)^```$/gm)) {
      const installs = /(?:^|&& )(?:npm|pnpm|yarn|bun) (?:install|add|create)\b.*$/m.exec(code);
      if (installs && !installsOf(code)) found.push(`${page}: ${installs[0].replace(/ *#.*/, "")}`);
    }
  }
  expect(found.filter((line) => !NPM_ALONE.some((command) => line.endsWith(command)))).toEqual([]);
});

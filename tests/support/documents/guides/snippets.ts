/** The code of pages that no walk runs: parts of programs, which take names for granted. They are compiled, strictly. */
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { typescript } from "../../processes/compile.js";
import { GRANTED } from "./granted.js";
import type { Snippet } from "./page.js";

const root = fileURLToPath(new URL("../../../..", import.meta.url));

const DOCS = join(root, "docs/node_modules");
/** Packages that pages compare with, which only the docs install. */
const OF_DOCS = ["bullmq"];

/** The package of the docs that the snippet imports, or null. */
export function ofDocs({ code }: Snippet): string | null {
  return OF_DOCS.find((name) => code.includes(`from "${name}"`)) ?? null;
}

/** Why a snippet cannot be compiled on this machine, or null. */
export function lackedBy(snippet: Snippet): string | null {
  const name = ofDocs(snippet);
  if (name === null || existsSync(join(DOCS, name))) return null;
  return `no ${name}: npm ci --ignore-scripts --prefix docs`;
}

/**
 * @param granted declarations of what the code takes for granted
 * @param files of the reader, which the code imports
 * @throws Error with what the compiler says, in the lines of the pages
 */
export async function compileSnippets(
  pages: ReadonlyMap<string, readonly Snippet[]>,
  granted = GRANTED,
  files: Readonly<Record<string, string>> = {},
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-snippets-"));
  try {
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    for (const [path, snippets] of pages) {
      for (const { lang, code, line } of snippets) {
        const name = `${path.replaceAll(/\W/g, "-")}-${line}.${lang}`;
        const isModule = /^(import|export) /m.test(code);
        const before = "\n".repeat(line - 1);
        await writeFile(join(folder, name), `${before}${code}${isModule ? "" : "export {};\n"}`);
      }
    }
    await writeFile(join(folder, "granted.d.ts"), granted);
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    // Without the paths of the sources: what was built, as users have it.
    const present = OF_DOCS.filter((name) => existsSync(join(DOCS, name)));
    const paths = Object.fromEntries(present.map((name) => [name, [typesOf(name)]]));
    const compilerOptions = { paths, checkJs: true, lib: ["ES2024", "ESNext", "DOM"] };
    const config = { extends: join(root, "tsconfig.json"), compilerOptions, include: ["*"] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    await typescript(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The declarations of a package of the docs. */
function typesOf(name: string): string {
  const manifest = readFileSync(join(DOCS, name, "package.json"), "utf8");
  return join(DOCS, name, (JSON.parse(manifest) as { types: string }).types);
}

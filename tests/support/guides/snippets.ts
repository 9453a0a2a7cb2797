/** The code of pages that no walk runs: parts of programs, which take names for granted. They are compiled, strictly. */
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { typescript } from "../compile.js";
import { GRANTED } from "./granted.js";
import type { Snippet } from "./page.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));

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
    // Without the paths: what was built, as users have it.
    const compilerOptions = { paths: {}, checkJs: true, lib: ["ES2024", "ESNext", "DOM"] };
    const config = { extends: join(root, "tsconfig.json"), compilerOptions, include: ["*"] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    await typescript(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

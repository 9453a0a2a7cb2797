import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { compilePrograms } from "../../../scripts/support/sources.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/**
 * Compiles a TypeScript program and what it imports, for a test that needs it as a process of its
 * own and must not run what happens to lie in dist.
 * @returns the JavaScript to run, and what removes it
 */
export async function compile(source: URL): Promise<{ path: string; remove(): Promise<void> }> {
  // Inside node_modules, so that packages are found from there.
  const folder = await mkdtemp(join(root, "node_modules", ".leasehold-test-"));
  const remove = () => rm(folder, { recursive: true });
  try {
    await compilePrograms({ program: fileURLToPath(source) }, folder);
  } catch (error) {
    await remove();
    throw error;
  }
  return { path: join(folder, "program.js"), remove };
}

/**
 * Compiles a folder by its tsconfig.json.
 * @throws Error with what the compiler says
 */
export async function typescript(folder: string): Promise<void> {
  const compiler = createRequire(import.meta.url).resolve("typescript/package.json");
  const tsc = join(dirname(compiler), "bin", "tsc");
  try {
    await promisify(execFile)(process.execPath, [tsc, "-p", folder]);
  } catch (error) {
    const { stdout = "", message } = error as { stdout?: string; message: string };
    throw new Error(stdout || message, { cause: error });
  }
}

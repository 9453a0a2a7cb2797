import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Compiles a TypeScript program and what it imports, for a test that needs it as a process of its
 * own and must not run what happens to lie in dist.
 * @param source below test/ or src/
 * @returns the JavaScript to run, and what removes it
 */
export async function compile(source: URL): Promise<{ path: string; remove(): Promise<void> }> {
  // Inside node_modules, so that packages are found from there.
  const folder = await mkdtemp(join(root, "node_modules", ".leasehold-test-"));
  const file = fileURLToPath(source);
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: {
      ...{ noEmit: false, rootDir: root, outDir: folder, types: ["node"] },
      // Types are checked with all others; this is to be ready soon.
      noCheck: true,
    },
    files: [file],
    include: [],
  };
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  const remove = () => rm(folder, { recursive: true });
  await typescript(folder).catch(async (error: unknown) => {
    await remove();
    throw error;
  });
  return {
    path: join(folder, relative(root, file).replace(/\.ts$/, ".js")),
    remove,
  };
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

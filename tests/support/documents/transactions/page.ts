/** The code of docs/transactions.md, compiled against the built packages, as users have it. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type * as Library from "../../../../packages/leasehold/src/index.js";
import type { SqlTransaction } from "../../../../packages/leasehold/src/lease/index.js";
import { typescript } from "../../processes/compile.js";

const root = fileURLToPath(new URL("../../../..", import.meta.url));

/** What the block of a library exports. */
export interface Adapter {
  clientOf(tx: unknown): SqlTransaction;
  placeOrder(db: unknown, customer: string): Promise<unknown>;
}

export interface Page {
  readonly leasehold: Library.Leasehold;
  readonly sendMail: Library.TaskDefinition<{ to: string }, unknown>;
  adapter(name: string): Promise<Adapter>;
  /** A named export of a built entry, such as `fence` of `leasehold/fence`. */
  built<T>(specifier: string): Promise<T>;
  close(): Promise<void>;
}

/**
 * @param url of the database that `tasks.ts` connects to
 * @param names of the blocks
 * @param before called with the folder before it is compiled
 */
export async function compileBlocks(
  url: string,
  names: readonly string[],
  before?: (folder: string) => Promise<void>,
): Promise<Page> {
  // Inside node_modules, so that packages are found from there, and Node itself loads the modules.
  const folder = await mkdtemp(join(root, "node_modules", ".leasehold-test-"));
  const remove = () => rm(folder, { recursive: true });
  try {
    const text = await readFile(join(root, "docs/transactions.md"), "utf8");
    for (const [, name = "", code = ""] of text.matchAll(
      /^```ts\n\/\/ (\w+)\.ts\n([^]*?)^```$/gm,
    )) {
      if (names.includes(name)) await writeFile(join(folder, `${name}.ts`), code);
    }
    const compilerOptions = { noEmit: false, noEmitOnError: true, paths: {} };
    const config = { extends: join(root, "tsconfig.json"), compilerOptions, include: ["*.ts"] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    await writeFile(join(folder, "built.js"), "export const built = (name) => import(name);\n");
    await before?.(folder);
    await typescript(folder);
    const load = async <T>(name: string) =>
      (await import(pathToFileURL(join(folder, `${name}.js`)).href)) as T;
    process.env.DATABASE_URL = url;
    const { leasehold, sendMail } = await load<Pick<Page, "leasehold" | "sendMail">>("tasks");
    const { built } = await load<Pick<Page, "built">>("built");
    return {
      leasehold,
      sendMail,
      adapter: load,
      built,
      async close() {
        await leasehold.close();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  } finally {
    delete process.env.DATABASE_URL;
  }
}

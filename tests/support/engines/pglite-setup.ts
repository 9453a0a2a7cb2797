/** An empty PGlite that each test copies: to make one takes seconds of processor time. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import type { TestProject } from "vitest/node";
import { openDesk } from "../runner/desk.js";

declare module "vitest" {
  interface ProvidedContext {
    pglite: { readonly askPort: number };
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const made: string[] = [];
  const desk = await openDesk(async () => {
    const folder = await mkdtemp(join(tmpdir(), "leasehold-pglite-template-"));
    made.push(folder);
    const db = await PGlite.create({ dataDir: join(folder, "data") });
    const tar = await db.dumpDataDir("none");
    await db.close();
    await writeFile(join(folder, "data.tar"), new Uint8Array(await tar.arrayBuffer()));
    return folder;
  });
  project.provide("pglite", { askPort: desk.port });
  return async () => {
    desk.close();
    for (const folder of made) await rm(folder, { recursive: true });
  };
}

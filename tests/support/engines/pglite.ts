/** PGlites for tests, empty, as copies of one that the run makes. */
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite, type PGliteOptions } from "@electric-sql/pglite";
import { inject } from "vitest";
import { askDesk } from "../runner/desk.js";
import type {} from "./pglite-setup.js";

const template = () => askDesk(inject("pglite").askPort, "PGlite");

/** The environment of a process whose PGlites in memory start from the copy, too. */
export async function quickPglite(): Promise<Record<string, string>> {
  const preload = new URL("./pglite-preload.js", import.meta.url).href;
  return {
    NODE_OPTIONS: `--import ${preload}`,
    TEST_PGLITE: join(await template(), "data.tar"),
  };
}

/** In memory, yours to close. */
export async function openPglite(options: PGliteOptions = {}): Promise<PGlite> {
  const tar = await readFile(join(await template(), "data.tar"));
  return PGlite.create({ ...options, loadDataDir: new Blob([tar]) });
}

/** A directory for `pglite:DIRECTORY`, and what removes it. */
export async function freshPglite(): Promise<{ directory: string; remove(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), "leasehold-pglite-"));
  await cp(join(await template(), "data"), directory, { recursive: true });
  return { directory, remove: () => rm(directory, { recursive: true }) };
}

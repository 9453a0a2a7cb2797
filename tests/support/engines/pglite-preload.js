// For `node --import`: an empty PGlite in memory starts from the copy that the run has made, as pglite.ts does for
// tests. To make one anew takes three seconds of processor time, in each process.
import { readFile } from "node:fs/promises";
import { PGlite } from "@electric-sql/pglite";

const tar = process.env["TEST_PGLITE"];
const { create } = PGlite;
/** @param {any[]} given a directory and options, or options alone */
PGlite.create = async function (...given) {
  const [directory, options] = typeof given[0] === "string" ? given : [given[0]?.dataDir, given[0]];
  if (directory !== undefined || !tar) return create.apply(this, /** @type {any} */ (given));
  return create.call(this, { ...options, loadDataDir: new Blob([await readFile(tar)]) });
};

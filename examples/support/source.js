import { PGlite } from "@electric-sql/pglite";
import { pglite } from "leasehold/stores/postgres";

/**
 * What an example works on: the URL that it was given, or a PGlite in this process, which several
 * clients share.
 * @param {string} [url]
 */
export async function openSource(url) {
  if (url !== undefined) return { source: url, close: async () => {} };
  const db = await PGlite.create();
  return { source: pglite({ db }), close: () => db.close() };
}

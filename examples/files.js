/**
 * Real work: SHA-256, number of lines and size of files, each file a task.
 *
 *   npx leasehold serve
 *   npx leasehold worker --store http://127.0.0.1:4040 --handlers examples/files.js
 *   node examples/files-enqueue.js some/folder --store http://127.0.0.1:4040
 *   npx leasehold tasks --kind file.digest --store http://127.0.0.1:4040
 *
 * The outputs are those of `sha256sum` and `wc -l`.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { defineTask, FinalTaskError } from "leasehold";
import { z } from "zod";

/** Trying again will not make such a file readable. */
const HOPELESS = new Set(["ENOENT", "ENOTDIR", "EISDIR", "EACCES", "ENAMETOOLONG"]);
const NEWLINE = 0x0a;

/** One file; the worker must see it under this path. */
export const fileDigest = defineTask("file.digest", {
  schema: z.object({ path: z.string().min(1) }),
});

export default [
  fileDigest.handle(async ({ path }, { signal, progress }) => {
    const hash = createHash("sha256");
    let lines = 0;
    let bytes = 0;
    try {
      // The stream ends with the signal's reason when the lease is lost.
      for await (const chunk of createReadStream(path, { signal, highWaterMark: 256 * 1024 })) {
        hash.update(chunk);
        bytes += chunk.length;
        lines += newlines(chunk);
        progress({ bytes });
      }
    } catch (error) {
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
      throw code !== undefined && HOPELESS.has(code) ? new FinalTaskError(message) : error;
    }
    return { path, sha256: hash.digest("hex"), lines, bytes };
  }),
];

/**
 * As `wc -l` counts: newline characters, so that an unfinished last line is none.
 * @param {Buffer} chunk
 */
function newlines(chunk) {
  let count = 0;
  for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, at + 1)) count += 1;
  return count;
}

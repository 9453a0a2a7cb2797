/**
 * Adds a task for every file of a folder, for the workers of files.js.
 *
 *   node examples/files-enqueue.js some/folder [--store http://127.0.0.1:4040]
 *
 * Run again, it adds those that are not waiting or being worked on already.
 */
import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { opendir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { connect } from "leasehold";
import { fileDigest } from "./files.js";

/** Files that go into one statement. */
const BATCH = 200;
const LONGEST_KEY_BYTES = 256;

const { values, positionals } = parseArgs({
  options: {
    store: { type: "string", default: process.env.LEASEHOLD_STORE ?? "http://127.0.0.1:4040" },
  },
  allowPositionals: true,
});
const [folder] = positionals;
if (folder === undefined || positionals.length > 1) {
  console.error("usage: node examples/files-enqueue.js FOLDER [--store URL]");
  process.exit(2);
}

const found = { enqueued: 0, duplicate: 0, unnameable: 0 };
const leasehold = await connect(values.store);
const { tasks } = leasehold;
try {
  /** @type {string[]} */
  let batch = [];
  for await (const path of filesOf(resolve(folder))) {
    batch.push(path);
    if (batch.length === BATCH) await enqueue(batch.splice(0));
  }
  await enqueue(batch);
} finally {
  await leasehold.close();
}
console.log(`${found.enqueued} files enqueued, ${found.duplicate} were in the queue already`);
if (found.unnameable > 0) {
  console.log(`${found.unnameable} left out: their names are not UTF-8, so JSON cannot hold them`);
}

/** @param {string[]} paths */
async function enqueue(paths) {
  const added = paths.map((path) => ({ data: { path }, dedupeKey: keyOf(path) }));
  for (const { status } of await tasks.enqueueAll(fileDigest, added)) found[status] += 1;
}

/**
 * The path itself where it fits: people see the key.
 * @param {string} path
 */
function keyOf(path) {
  if (Buffer.byteLength(path) <= LONGEST_KEY_BYTES) return path;
  return `sha256:${createHash("sha256").update(path).digest("hex")}`;
}

/**
 * Regular files, in folders below too; symbolic links are not followed.
 * @param {string} folder
 * @returns {AsyncGenerator<string>}
 */
async function* filesOf(folder) {
  // As bytes: a name that is no UTF-8 would come out as a different name.
  const entries = await opendir(folder, {
    encoding: /** @type {"utf8"} */ (/** @type {unknown} */ ("buffer")),
  });
  for await (const entry of entries) {
    const name = /** @type {Buffer} */ (/** @type {unknown} */ (entry.name));
    if (!isUtf8(name)) {
      found.unnameable += 1;
      continue;
    }
    const path = join(folder, name.toString("utf8"));
    if (entry.isDirectory()) yield* filesOf(path);
    else if (entry.isFile()) yield path;
  }
}

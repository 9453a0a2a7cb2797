/** Reads the files of the console and the simulator from the package, for servers that run on Node. */
import { readdir, readFile } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { ConsoleFile, ConsoleFiles } from "./static.js";

/** The location in the built package, relative to this file. Bundlers would resolve a literal in `new URL` at build time. */
const BUILT = "../../web/";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
};
/** Already compressed formats. */
const DENSE = [".png", ".woff2"];

/**
 * Reads the console and the simulator for `createApp({ console })`, and compresses them.
 * @param directory the build output of both; default: the one in this package
 * @returns null if the package was built without a console
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { consoleFiles, createApp } from "leasehold-server";
 *
 * const stores = await openStores("memory:");
 * const app = createApp({ ...stores, version: "1.0.0", console: await consoleFiles() });
 * await app.close();
 * await stores.close();
 * ```
 */
export async function consoleFiles(directory?: string | URL): Promise<ConsoleFiles | null> {
  const from = directory ?? builtFiles();
  if (from === null) return null;
  const root = from instanceof URL ? fileURLToPath(from) : from;
  const names = await readdir(root, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const known = names.filter((name) => extname(name) in TYPES);
  const files = await Promise.all(
    known.map(async (name) => [name.split(sep).join("/"), await read(join(root, name))] as const),
  );
  const map = new Map(files);
  return map.has("index.html") ? map : null;
}

/** Null in a bundle that is a CommonJS module, which has no URL of its own. */
function builtFiles(): URL | null {
  const { url } = import.meta as { readonly url?: string };
  return url === undefined ? null : new URL(BUILT, url);
}

async function read(path: string): Promise<ConsoleFile> {
  const extension = extname(path);
  const [body, type] = [new Uint8Array(await readFile(path)), TYPES[extension] ?? ""];
  if (DENSE.includes(extension)) return { body, type };
  return { body, type, gzip: new Uint8Array(await promisify(gzip)(body)) };
}

/**
 * The console's files beside the API: given as a value, so that any host can serve them.
 *
 *   /api/..., /v1/..., /healthz and their like ─▶ the API, always
 *   a path of a file                           ─▶ the file
 *   below /assets/, but no file                ─▶ 404
 *   /, and any other path that a browser opens ─▶ index.html: the page knows what it shows there
 *   all else                                   ─▶ the API, which knows no such route
 *
 * The files are open to anybody; what they show needs a key where one is asked for. A page learns by its
 * `<base>` where the console's root is, as a path from its own: so it works below any base and mount.
 */
import type { Context, MiddlewareHandler } from "hono";
import { digestOf } from "leasehold/internal";
import { ProblemError } from "../problems.js";
import type { AppEnv } from "../request.js";

export interface ConsoleFile {
  readonly body: Uint8Array<ArrayBuffer>;
  /** Its media type. */
  readonly type: string;
  /** The same as gzip; absent: not worth it. */
  readonly gzip?: Uint8Array<ArrayBuffer>;
}

/** By path from the console's root, like `index.html`. What is below `assets/` never changes. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;

/** The API's, and what is not below the base. */
const OTHERS = /^\/((api|v1)(\/|$)|(healthz|readyz|metrics|openapi\.json)$|\.\.\/)/;
const PAGE = "index.html";
const ASSETS = "/assets/";

/** Scripts, styles and data from here alone, and nobody may put the console into a frame. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");
const HEADERS = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};
const VARY = { vary: "accept-encoding" };
const FOR_EVER = "public, max-age=31536000, immutable";

/** @param basePath as the app's; `""`: none, or a mount takes it away */
export function servesConsole(files: ConsoleFiles, basePath: string): MiddlewareHandler<AppEnv> {
  return async (context, next) => {
    const { method, path } = context.req;
    if ((method !== "GET" && method !== "HEAD") || OTHERS.test(path)) return next();
    // From there a page would look for its files beside its root.
    if (basePath !== "" && new URL(context.req.url).pathname === basePath) {
      return context.redirect(`${basePath}/`, 308);
    }
    const found = path === "/" ? undefined : files.get(path.slice(1));
    if (found) return answer(context, found, path);
    if (path.startsWith(ASSETS)) {
      throw new ProblemError("UNKNOWN_ROUTE", "the console has no such file");
    }
    const page = files.get(PAGE);
    if (!page || !(path === "/" || acceptsPages(context))) return next();
    return answer(context, page, path);
  };
}

function answer(context: Context<AppEnv>, file: ConsoleFile, path: string): Response {
  if (path.startsWith(ASSETS)) return send(context, file, { "cache-control": FOR_EVER });
  const shown = file.type.startsWith("text/html") ? withBase(file, path) : file;
  const tag = `"${tagOf(file)}.${depthOf(path)}"`;
  // Weak: the same bytes, compressed or not.
  const caching = { "cache-control": "no-cache", etag: `W/${tag}` };
  const known = context.req.header("if-none-match")?.split(",") ?? [];
  if (known.some((each) => each.trim().replace(/^W\//, "") === tag)) {
    return new Response(null, { status: 304, headers: { ...HEADERS, ...VARY, ...caching } });
  }
  return send(context, shown, caching);
}

function send(
  context: Context<AppEnv>,
  { body, type, gzip }: ConsoleFile,
  caching: Readonly<Record<string, string>>,
): Response {
  const headers = { ...HEADERS, ...VARY, ...caching, "content-type": type };
  if (!gzip || !acceptsGzip(context)) return new Response(body, { headers });
  return new Response(gzip, { headers: { ...headers, "content-encoding": "gzip" } });
}

/** Pages are small: they are not compressed anew for each depth. */
function withBase({ body, type }: ConsoleFile, path: string): ConsoleFile {
  const root = "../".repeat(depthOf(path)) || "./";
  const page = new TextDecoder().decode(body);
  const based = page.replace(/<head[^>]*>/i, (head) => `${head}<base href="${root}">`);
  return { body: new TextEncoder().encode(based), type };
}

/** How many folders a page's path is below the root. */
function depthOf(path: string): number {
  return path.split("/").length - 2;
}

const tags = new WeakMap<ConsoleFile, string>();

function tagOf(file: ConsoleFile): string {
  const known = tags.get(file);
  if (known !== undefined) return known;
  const tag = digestOf(new TextDecoder("latin1").decode(file.body)).slice(0, 16);
  tags.set(file, tag);
  return tag;
}

function acceptsPages(context: Context<AppEnv>): boolean {
  return /\btext\/html\b/.test(context.req.header("accept") ?? "");
}

function acceptsGzip(context: Context<AppEnv>): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/.test(context.req.header("accept-encoding") ?? "");
}

/**
 * Serves the files of the console and the simulator beside the API. The files are a value, so any host can serve them.
 *
 *   /api/..., /v1/..., /healthz and the like   ─▶ the API, always
 *   a path of a file                           ─▶ the file
 *   below /assets/, but no file                ─▶ 404
 *   /simulator                                 ─▶ simulator.html
 *   /, and any other path that a browser opens ─▶ index.html, which has the routes of the console's pages
 *   all else                                   ─▶ the API, which returns 404
 *
 * The files are public; the data that they show needs a key if the server requires one. A page's `<base>`
 * is the console's root, so the console works below any base path and mount, and behind any proxy: see page-base.ts.
 */
import type { Context, MiddlewareHandler } from "hono";
import { digestOf } from "leasehold/internal";
import { ProblemError } from "../problems.js";
import type { AppEnv } from "../request.js";
import { BASE_SCRIPT_HASH, baseTags } from "./page-base.js";

/** A file of the web console, as the app serves it. */
export interface ConsoleFile {
  readonly body: Uint8Array<ArrayBuffer>;
  /** Its media type. */
  readonly type: string;
  /** The gzipped body; absent if compression does not pay. */
  readonly gzip?: Uint8Array<ArrayBuffer>;
}

/** By path from the console's root, like `index.html`. Files below `assets/` never change. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;

/** Paths of the API, and paths outside the base. */
const OTHERS = /^\/((api|v1)(\/|$)|(healthz|readyz|metrics|openapi\.json)$|\.\.\/)/;
const PAGE = "index.html";
const SIMULATOR = { path: /^\/simulator\/?$/, page: "simulator.html" };
const ASSETS = "/assets/";

/** Scripts, styles and data from this origin only, and no framing. */
const POLICY = [
  "default-src 'none'",
  `script-src 'self' ${BASE_SCRIPT_HASH}`,
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

/** In the page's head where people sign in by an issuer. */
const SIGN_IN = '<meta name="leasehold-sign-in" content="session/sign-in">';

/**
 * @param basePath the app's; `""`: none, or a mount strips it
 * @param signIn undefined: the console asks for a key
 */
export function servesConsole(
  files: ConsoleFiles,
  basePath: string,
  signIn?: object,
): MiddlewareHandler<AppEnv> {
  const head = signIn ? SIGN_IN : "";
  return async (context, next) => {
    const { method, path } = context.req;
    if ((method !== "GET" && method !== "HEAD") || OTHERS.test(path)) return next();
    // At this path, relative links of the page would lead outside the base.
    if (basePath !== "" && new URL(context.req.url).pathname === basePath) {
      return context.redirect(`${basePath}/`, 308);
    }
    const found = path === "/" ? undefined : files.get(path.slice(1));
    if (found) return answer(context, found, path, head);
    if (path.startsWith(ASSETS)) {
      throw new ProblemError("UNKNOWN_ROUTE", "the console has no such file");
    }
    const page = files.get(SIMULATOR.path.test(path) ? SIMULATOR.page : PAGE);
    if (!page || !(path === "/" || acceptsPages(context))) return next();
    return answer(context, page, path, head);
  };
}

function answer(context: Context<AppEnv>, file: ConsoleFile, path: string, head: string): Response {
  if (path.startsWith(ASSETS)) return send(context, file, { "cache-control": FOR_EVER });
  const shown = file.type.startsWith("text/html") ? withBase(file, path, head) : file;
  const tag = `"${tagOf(file)}.${digestOf(path + head).slice(0, 16)}"`;
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

/** Pages are small, so they are sent uncompressed rather than compressed for each path. */
function withBase({ body, type }: ConsoleFile, path: string, more: string): ConsoleFile {
  const page = new TextDecoder().decode(body);
  const based = page.replace(/<head[^>]*>/i, (head) => `${head}${baseTags(path)}${more}`);
  return { body: new TextEncoder().encode(based), type };
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

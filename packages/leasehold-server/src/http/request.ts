/** Per-request helpers: the request id, the time budget, the limit of the body. */
import type { Context, MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { Clock, Env } from "leasehold";
import { InvalidOptionError, LeaseholdError } from "leasehold";
import {
  asReadError,
  type Capabilities,
  checkInteger,
  checkNumber,
  decodeJson,
  defaultTtlMs,
  JsonTextError,
  randomHex,
  readJson,
  withTimeout,
} from "leasehold/internal";
import { BUDGET_HEADER } from "leasehold/internal/wire";
import type { Caller } from "./auth/caller.js";
import type { ClientCertificate } from "./auth/certificates.js";
import { checkNesting } from "./nesting.js";
import { invalid, notJson, ProblemError, storeProblem } from "./problems.js";

/** An answer while it is sent. */
export interface Answer {
  /** Bytes that wait to be sent. */
  readonly unsent: () => number;
  /** Bytes of it so far, sent or not. */
  readonly bytes: () => number;
  /** Calls this once when all of it was sent, or its connection was closed. */
  readonly onEnd: (call: () => void) => void;
}

export type BodyChunks = AsyncGenerator<Uint8Array, void>;

/** What the host of the app knows of a request's connection. */
export interface Connection {
  /** Of the connection, never from a header that the client can choose. */
  readonly remoteAddress?: string | undefined;
  /** That of the client, which the TLS of the connection has verified. */
  readonly certificate?: ClientCertificate | undefined;
  /** Of a GET or HEAD with a body, which a Request cannot carry. Read at most once. */
  readonly bodyOfGet?: (() => BodyChunks) | undefined;
  /** Called before the body is read, if it is. */
  readonly onBody?: () => void;
  /** Without it, a request ends for the app when its answer is handed over. */
  readonly answer?: Answer;
  /** Called when the caller of the request is known. Hosts may keep connections of callers for longer than others. */
  readonly noteCaller?: () => void;
}

export interface AppEnv {
  Bindings: Connection;
  Variables: {
    requestId: string;
    caller: Caller;
    /** Rejects if the caller's key has ended since it was checked, a while ago. Absent where no caller is needed. */
    checkCaller?: () => Promise<void>;
    arrivedMs: number;
    /** The request has no JSON content type, and its body is read as JSON all the same. */
    assumedJson?: true;
    /** How long the caller waits, from the request's arrival; null: unknown. */
    budgetMs: number | null;
    /** The largest body that this server takes. */
    maxBodyBytes: number;
    /**
     * Runs what waits for the body. Resolves when the body may be parsed, in the same turn of the event loop.
     * @throws OVERLOADED, TOO_MANY_REQUESTS
     */
    arriving: <T>(read: () => Promise<T>) => Promise<T>;
    /**
     * Runs the wait for a scan. From then on the request is no demand: its tenant has few scans at once, and the time of
     * a scan says nothing of how long the store makes others wait. Absent where no caller is needed.
     */
    scanning?: <T>(wait: () => Promise<T>) => Promise<T>;
    /** To be awaited with the number of items of a body that is an array, before they are checked and served. */
    begin: (items: number) => Promise<void>;
    /**
     * Runs work that takes as long as its sender chooses, and charges the tenant what it has taken of the thread.
     * @throws TOO_MANY_REQUESTS
     */
    measured: <T>(work: () => Promise<T>) => Promise<T>;
  };
}

/** What is known of a request where it is served. A context of the framework has it, and so has a direct request. */
export interface RequestScope {
  get<Name extends keyof AppEnv["Variables"]>(name: Name): AppEnv["Variables"][Name];
  readonly req: { readonly raw: Request };
}

/** The maximum timeout of a store call, and the default if the caller sends no budget. */
const LONGEST_STORE_CALL_MS = 10_000;
/**
 * The minimum timeout of a store call. Concurrent callers share a statement with the shortest of their
 * timeouts: a caller with little time left must not make it fail for the others.
 */
const SHORTEST_STORE_CALL_MS = 250;
/** Reserved so that the response to a wait is sent before the caller's time is over. */
const ANSWER_MS = 250;

const CHOSEN_ID = /^[\w.:-]{1,64}$/;

/** @param chosen the id that the caller sent */
export function requestIdOf(chosen: string | undefined, env: Pick<Env, "random">): string {
  return chosen && CHOSEN_ID.test(chosen) ? chosen : randomHex(env.random, 8);
}

/** Parses the budget header; null if absent. */
export function budgetOf(request: Request): number | null {
  const text = request.headers.get(BUDGET_HEADER);
  if (text === null) return null;
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  throw invalid([{ path: BUDGET_HEADER, problem: "must be whole milliseconds" }]);
}

/** The remaining budget of a request. Routes read it right before they call the store. */
export class Budget {
  readonly #deadlineMs: number;
  readonly #clock: Clock;

  constructor(scope: RequestScope, clock: Clock) {
    this.#deadlineMs = scope.get("arrivedMs") + (scope.get("budgetMs") ?? Infinity);
    this.#clock = clock;
  }

  /** @throws BUDGET_SPENT, before anything was done */
  #leftMs(): number {
    const leftMs = this.#deadlineMs - this.#clock.monotonic();
    if (leftMs > 0) return leftMs;
    throw new ProblemError("BUDGET_SPENT", `${BUDGET_HEADER} had passed before the work began`);
  }

  /** The timeout of a call to the store. */
  storeMs(): number {
    return Math.min(LONGEST_STORE_CALL_MS, Math.max(SHORTEST_STORE_CALL_MS, this.#leftMs()));
  }

  /** How long to wait: the requested time, or less if the budget ends earlier. */
  waitMs(wantedMs: number): number {
    return Math.max(0, Math.min(wantedMs, this.#leftMs() - ANSWER_MS));
  }

  /** Runs a call that changes nothing. Its failures always mean that nothing was done. */
  async read<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await this.#within(call, "STORE_UNAVAILABLE");
    } catch (error) {
      throw error instanceof LeaseholdError && !(error instanceof InvalidOptionError)
        ? storeProblem(asReadError(error), true)
        : error;
    }
  }

  /** Runs a call that changes something and has no timeout of its own. */
  change<T>(call: () => Promise<T>): Promise<T> {
    return this.#within(call, "OUTCOME_UNKNOWN");
  }

  async #within<T>(
    call: () => Promise<T>,
    late: "STORE_UNAVAILABLE" | "OUTCOME_UNKNOWN",
  ): Promise<T> {
    const timeoutMs = this.storeMs();
    const giveUp = () => {
      throw new ProblemError(late, `no answer within ${Math.round(timeoutMs)} ms`);
    };
    // The client's connection keeps the process running. Once it is cut, the timer need not.
    return withTimeout(this.#clock, timeoutMs, call(), giveUp, { background: true });
  }
}

/** What clients send that set no content type: `curl -d` the first, `fetch` in Node the second. */
const DEFAULT_TYPE = /^(application\/x-www-form-urlencoded|text\/plain)\s*(;|$)/i;
/** A browser sends one of the first two with each POST to another origin. Pages cannot prevent that. */
const BROWSER_HEADERS = ["origin", "sec-fetch-site", "referer", "cookie"];

/**
 * Gives a body without a JSON content type that type, unless a web page may have sent it. A page of any
 * site can make a visitor's browser send these types without asking the server first. It cannot send a
 * key that way, so a request with a key is never such a page's.
 */
function assumeJson(context: Context<AppEnv>): void {
  const { raw } = context.req;
  const type = raw.headers.get("content-type");
  const hasBody =
    Number(raw.headers.get("content-length")) > 0 || raw.headers.has("transfer-encoding");
  if (type === null ? !hasBody : !DEFAULT_TYPE.test(type)) return;
  if (context.get("caller").keyId === null && isFromBrowser(raw.headers)) return;
  const { method, url, signal, body } = raw;
  const headers = new Headers(raw.headers);
  headers.set("content-type", "application/json");
  context.req.raw = new Request(url, { method, headers, signal, body, duplex: "half" });
  context.set("assumedJson", true);
}

/** Every browser's name begins with `Mozilla/`, so this also finds browsers without the newer headers. */
function isFromBrowser(headers: Headers): boolean {
  const agent = headers.get("user-agent") ?? "";
  return agent.startsWith("Mozilla/") || BROWSER_HEADERS.some((name) => headers.has(name));
}

/** ASCII is UTF-8 too. */
const UTF_8 = /^(utf-?8|us-ascii)$/i;

/** Bytes that are decoded in another way than the sender encoded them would become other names. */
function checkEncoding({ headers }: Request): void {
  const coding = headers.get("content-encoding") ?? "identity";
  if (coding.trim().toLowerCase() !== "identity") {
    const detail = `send the body without the content-encoding ${coding}`;
    throw new ProblemError("UNSUPPORTED_MEDIA_TYPE", detail);
  }
  const type = headers.get("content-type") ?? "";
  // A program on the way may go by another one of several.
  for (const [, charset = ""] of type.matchAll(/;\s*charset\s*=\s*"?([^";\s]*)/gi)) {
    if (UTF_8.test(charset)) continue;
    throw new ProblemError("UNSUPPORTED_MEDIA_TYPE", `send the body in UTF-8, not in ${charset}`);
  }
}

/** @throws MALFORMED_JSON if the body ends too soon */
export function bytesOf(request: Request): Promise<ArrayBuffer> {
  return request.arrayBuffer().catch(() => {
    throw new ProblemError("MALFORMED_JSON", "the body cannot be read as JSON");
  });
}

/**
 * The text of a body, to be parsed as JSON. The platform's own reader would replace each invalid byte by U+FFFD.
 * @throws JsonTextError, INVALID_REQUEST
 */
export function textOf(bytes: ArrayBuffer): string {
  const text = decodeJson(bytes);
  checkNesting(text);
  return text;
}

/** Reads the body before the validators. */
async function readText({ req, get }: Context<AppEnv>): Promise<void> {
  if (!req.raw.headers.has("content-type")) return;
  const bytes = await get("arriving")(() => bytesOf(req.raw));
  Object.assign(req.bodyCache, { text: Promise.resolve(textOf(bytes)) });
}

/** Lets go of a body that was parsed, for a request that waits: 2,000 claims of a tenant may. */
export function forgetBody({ req }: Context<AppEnv>): void {
  for (const form of Object.keys(req.bodyCache)) Reflect.deleteProperty(req.bodyCache, form);
  Reflect.deleteProperty(req, "json");
}

/** Matches the content types of the bodies that the validators parse. */
const JSON_TYPE = /^application\/([\w.-]+\+)?json\s*(;|$)/i;

/**
 * Parses the body for the validators, whose own parser rounds numbers and says nothing of where JSON ends. An empty body
 * is theirs, because it is absent where it may be. Lets an array begin by the number of its items.
 */
async function parseBody(context: Context<AppEnv>): Promise<void> {
  const { req, get } = context;
  if (!JSON_TYPE.test(req.raw.headers.get("content-type") ?? "")) return;
  const text = await req.text();
  if (text === "") return;
  const body = get("assumedJson") ? readAssumed(text) : readJson(text);
  Object.assign(req, { json: async () => body });
  if (Array.isArray(body)) await get("begin")(body.length);
}

/** @throws UNSUPPORTED_MEDIA_TYPE unless it is JSON: a form, perhaps */
function readAssumed(text: string): unknown {
  try {
    return readJson(text);
  } catch (error) {
    throw error instanceof JsonTextError && error.path === null ? notJson(error.message) : error;
  }
}

/** Reads a body whose length is not known, up to the limit. It waits for its client here, and has arrived afterwards. */
async function readCounted(
  context: Context<AppEnv>,
  limit: MiddlewareHandler<AppEnv>,
): Promise<void> {
  await context.get("arriving")(() => limit(context, async () => {}));
  context.set("arriving", (read) => read());
}

/**
 * Refuses a body above the route's limit or the server's, by its declared length if it has one, and settles its type
 * and encoding.
 */
export function limitBody(routeBytes: number): MiddlewareHandler<AppEnv> {
  return (context, next) => {
    const maxBytes = Math.min(routeBytes, context.get("maxBodyBytes"));
    const onError = () => {
      throw new ProblemError("BODY_TOO_LARGE", `at most ${maxBytes} bytes`);
    };
    const { headers } = context.req.raw;
    const declared = headers.get("content-length");
    const goOn = async () => {
      checkEncoding(context.req.raw);
      assumeJson(context);
      await readText(context);
      // The key may have ended while the body was sent, for as long as its sender liked.
      await context.get("checkCaller")?.();
      await parseBody(context);
      await next();
    };
    if (declared === null || headers.has("transfer-encoding")) {
      return readCounted(context, bodyLimit({ maxSize: maxBytes, onError })).then(goOn);
    }
    // Reading the body stream here would disable node's fast path for it.
    return Number(declared) > maxBytes ? onError() : goOn();
  };
}

/**
 * Treats an empty body as absent, for routes whose body is optional: many clients send its type
 * without a body. Stands after {@link limitBody}, which reads the body.
 */
export const emptyBodyIsNone: MiddlewareHandler = async (context, next) => {
  if ((await context.req.text()) === "") {
    const { raw } = context.req;
    const { method, url, signal } = raw;
    const headers = new Headers(raw.headers);
    headers.delete("content-type");
    context.req.raw = new Request(url, { method, headers, signal });
  }
  await next();
};

/**
 * @param path of the field that the caller sent: `ttlMs`, `ttlSeconds`, `0.ttlMs`
 * @throws InvalidOptionError naming `path`, in its unit, if the server does not accept the TTL
 */
export function checkTtl(path: string, ttlMs: number, served: Capabilities["ttl"]): void {
  const { minMs, maxMs } = served;
  if (!path.endsWith("ttlSeconds")) checkInteger(path, ttlMs, minMs, maxMs);
  else checkNumber(path, ttlMs / 1_000, minMs / 1_000, maxMs / 1_000);
}

/** As {@link checkTtl}; a request without a TTL has the usual one, or what the server allows that is nearest. */
export function ttlOf(
  path: string,
  ttlMs: number | undefined,
  served: Capabilities["ttl"],
): number {
  if (ttlMs === undefined) return defaultTtlMs(served);
  checkTtl(path, ttlMs, served);
  return ttlMs;
}

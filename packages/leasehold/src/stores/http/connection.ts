/**
 * Calls to a Leasehold server, using only fetch. Each call is one attempt, with one of these results:
 *
 *   answered 2xx, 4xx ────────────▶ the response
 *   refused connection, 429, 503 ─▶ failed, applied "no"
 *   reset, timeout, other 5xx ────▶ failed, applied "maybe"
 *
 * Of several servers, each is asked once after "no", except after 429. A server that does not answer must not use up
 * the time of the others: each has an equal share of it.
 */

import type { Env, OpenSpan } from "../../env/index.js";
import {
  ClosedError,
  type Failed,
  InvalidOptionError,
  LeaseholdError,
  refusedRequest,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import {
  connectionReason,
  serverProblem,
  TLS_REMEDIES,
  wasNotSent,
} from "../../store-kit/connecting.js";
import { ACTOR_HEADER, BUDGET_HEADER, type Problem, type ProblemCode } from "../../wire/index.js";
import type { Servers } from "./connection-servers.js";

export interface Connection {
  readonly servers: Servers;
  readonly namespace: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: Fetch;
  /** Its token comes from a function, so a refused one may be followed by a good one. */
  readonly renewsToken?: boolean;
  readonly env: Env;
  /** The largest body that the server takes. */
  readonly maxBodyBytes: number;
}

/** The fetch of a connection. With a token that ends, it adds the token, and replaces one that the server refuses. */
export type Fetch = (url: string, init: FetchInit) => Promise<Response>;

export interface FetchInit extends RequestInit {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Includes the query. */
  readonly path: string;
  /** As JSON text. */
  readonly body?: string;
  /** Who asks for an operator action, as the caller claims. */
  readonly actor?: string | undefined;
  /** For all servers together. */
  readonly budgetMs?: number | undefined;
  /** How long a server may wait before it answers, of the budget. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** A response with a status below 500, and its body parsed as JSON. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export const DEFAULT_BUDGET_MS = 5_000;

export class HttpClient {
  readonly #closing = new AbortController();
  readonly #open = new Set<AbortController>();

  constructor(readonly connection: Connection) {}

  /** Aborts when the client is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** @throws ClosedError */
  checkOpen(): void {
    if (this.closing.aborted) throw new ClosedError("the store");
  }

  /** Aborts all calls in flight. */
  close(): void {
    this.#closing.abort();
    for (const call of this.#open) call.abort();
  }

  /**
   * @throws InvalidOptionError if the namespace is not the one that the server serves this client
   */
  checkNamespace(namespace: string): void {
    const error = this.namespaceError(namespace);
    if (error) throw error;
  }

  /** Undefined: it is the namespace of the key. */
  namespaceError(namespace: string): InvalidOptionError | undefined {
    const { namespace: own } = this.connection;
    if (namespace === own) return undefined;
    return new InvalidOptionError(
      "namespace",
      `must be "${own}", the namespace of this client's key on the server, not "${namespace}"`,
    );
  }

  /**
   * Returns a `failed` outcome for every failure of the network or the server; never rejects for one.
   * @throws InvalidOptionError if the server rejects the request as malformed
   */
  async send(call: Call): Promise<Answer | Failed> {
    const { servers, env } = this.connection;
    const { waitMs = 0, budgetMs = DEFAULT_BUDGET_MS } = call;
    const deadlineMs = env.clock.monotonic() + budgetMs;
    for (let untried = servers.baseUrls.length; ; untried -= 1) {
      const server = servers.current;
      const leftMs = deadlineMs - env.clock.monotonic();
      const heldMs = Math.min(waitMs, leftMs);
      const answer = await this.#answer(call, server, heldMs + (leftMs - heldMs) / untried);
      if (!isFailed(answer)) return checked(answer);
      const isLeft = servers.current !== server;
      if (answer.applied === "maybe" || !isLeft || untried === 1) return answer;
    }
  }

  /** Sends a read. Throws instead of returning `failed`. */
  async read(path: string, budgetMs?: number): Promise<Answer> {
    const answer = await this.send({ method: "GET", path, budgetMs });
    if (isFailed(answer)) throw answer.error;
    return answer;
  }

  async #answer(call: Call, baseUrl: string, budgetMs: number): Promise<Answer | Failed> {
    const { servers, env, fetch, headers } = this.connection;
    const leftMs = Math.floor(budgetMs);
    if (this.closing.aborted) return failed("no", new ClosedError("the store"));
    if (leftMs <= 0 || call.signal?.aborted) {
      return failed("no", unavailable("no", "the timeout expired before the request was sent"));
    }
    const cut = new AbortController();
    let overdue = false;
    const timer = env.clock.timer(leftMs, () => {
      overdue = true;
      cut.abort();
    });
    const abort = () => cut.abort();
    call.signal?.addEventListener("abort", abort, { once: true });
    this.#open.add(cut);
    const ask = async (span?: OpenSpan) => {
      const response = await fetch(`${baseUrl}${call.path}`, {
        method: call.method,
        headers: {
          ...headers,
          ...servers.headers,
          ...env.telemetry?.outgoing(),
          accept: "application/json",
          [BUDGET_HEADER]: `${leftMs}`,
          ...(call.body === undefined ? {} : { "content-type": "application/json" }),
          ...(call.actor === undefined ? {} : { [ACTOR_HEADER]: encodeURIComponent(call.actor) }),
        },
        ...(call.body === undefined ? {} : { body: call.body }),
        redirect: "manual",
        signal: cut.signal,
      });
      span?.set({ "http.response.status_code": response.status });
      if (response.status >= 400) span?.fail();
      if (hasFailed(response)) servers.leave(baseUrl);
      else servers.answered();
      return readAnswer(response, await response.text());
    };
    try {
      return await (env.telemetry?.span(call.method, spanOf(call, baseUrl), ask) ?? ask());
    } catch (cause) {
      if (this.closing.aborted) return failed("maybe", new ClosedError("the store"));
      // There is no token to send it with.
      if (cause instanceof LeaseholdError) return failed("no", cause);
      if (!call.signal?.aborted) servers.leave(baseUrl);
      if (overdue) {
        return failed("maybe", unavailable("maybe", `no response within ${leftMs} ms`, { cause }));
      }
      return connectionFailure(cause, new URL(baseUrl).origin);
    } finally {
      timer.cancel();
      call.signal?.removeEventListener("abort", abort);
      this.#open.delete(cut);
    }
  }
}

/** Excludes the path, because it may name a lease. */
function spanOf({ method }: Call, baseUrl: string) {
  const { hostname, port } = new URL(baseUrl);
  const server = { "server.address": hostname, ...(port && { "server.port": Number(port) }) };
  return { kind: "client", attributes: { "http.request.method": method, ...server } } as const;
}

/** Whether another server may do better. With 501, a feature is absent. */
export function hasFailed({ status }: Response): boolean {
  return status >= 500 && status !== 501;
}

export function isFailed(answer: Answer | Failed): answer is Failed {
  return answer.status === "failed";
}

/** The response does not come from a Leasehold server. */
export function misconfigured(what: string): StoreMisconfiguredError {
  return new StoreMisconfiguredError(`${what}: is this the URL of a Leasehold server?`);
}

/** What to do, by the first words that the server's own fit; nothing where these say it themselves. */
const REFUSED_KEY: Readonly<Record<401 | 403, readonly (readonly [RegExp, remedy: string])[]>> = {
  401: [
    [
      /(assigned to|key of) this client certificate/,
      "assign an existing key to it in --tls-client-keys of the server",
    ],
    [/client certificate/, TLS_REMEDIES.client],
    [/Send none|: use that key|: get one/, ""],
    [
      /^/,
      "pass a valid key in the option apiKey, as http://KEY@host, or on the command line in LEASEHOLD_KEY, or a valid token in the option token",
    ],
  ],
  403: [
    [/ limited to |^status /, "use a key or an identity of another role, or with other prefixes"],
  ],
};

/** The server rejected the key or the token, or its caller may not do that. A retry cannot succeed without another one. */
export class RefusedKeyError extends StoreMisconfiguredError {
  /**
   * @param status with 403, other requests in the same call may be allowed
   */
  constructor(
    readonly status: 401 | 403,
    detail = `status ${status}`,
  ) {
    const refused =
      status === 403 ? "refused this caller (FORBIDDEN)" : "rejected the key (UNAUTHENTICATED)";
    const remedy = REFUSED_KEY[status].find(([words]) => words.test(detail))?.[1];
    super(`the server ${refused}: ${detail}${remedy ? `; ${remedy}` : ""}`);
    this.name = "StoreMisconfiguredError";
  }
}

/** By the code of a problem with status 429. A proxy sends others, and refuses for reasons of its own. */
const REFUSED_BY: ReadonlyMap<
  ProblemCode,
  NonNullable<StoreUnavailableError["refusedBy"]>
> = new Map([
  ["LIMIT_REACHED", "limit"],
  ["TOO_MANY_REQUESTS", "rate"],
  ["OVERLOADED", "load"],
]);

export function failed(applied: Failed["applied"], error: LeaseholdError): Failed {
  return { status: "failed", applied, retryable: error.retryable, error };
}

/** Reads the problem of a 4xx response, as far as its body is one. */
function problemOf({ body }: Answer): Partial<Problem> {
  return typeof body === "object" && body !== null ? body : {};
}

export function unavailable(
  applied: Failed["applied"],
  what: string,
  more: { readonly cause?: unknown; readonly retryAfterMs?: number } = {},
): StoreUnavailableError {
  const outcome = applied === "no" ? "none" : "unknown";
  return new StoreUnavailableError(`the server failed: ${what}`, { outcome, ...more });
}

export function connectionFailure(cause: unknown, origin: string): Failed {
  const problem = serverProblem(cause);
  if (problem !== null) {
    return failed("no", new StoreMisconfiguredError(`${origin}: ${problem}`, cause));
  }
  const applied = wasNotSent(cause) ? "no" : "maybe";
  return failed(applied, unavailable(applied, connectionReason(origin, cause), { cause }));
}

export function readAnswer(response: Response, text: string): Answer | Failed {
  const { status } = response;
  let body: unknown = null;
  try {
    if (text !== "") body = JSON.parse(text);
  } catch {
    if (status === 413) return failed("no", refusedRequest("a proxy says that it is too large"));
    // A proxy sent this page. Its status still shows whether the request reached the server.
    if (status < 500 && status !== 429) {
      return failed("maybe", misconfigured("the response is not JSON"));
    }
  }
  if (status < 500 && status !== 429) return { status, body };
  const { code, detail = `status ${status}` } = problemOf({ status, body });
  if (status !== 429 && status !== 503) return failed("maybe", unavailable("maybe", detail));
  const seconds = Number(response.headers.get("retry-after"));
  const pause = seconds > 0 ? { retryAfterMs: seconds * 1_000 } : {};
  if (status === 503) return failed("no", unavailable("no", detail, pause));
  const refused = `the server refused, by a limit: ${detail}`;
  const refusedBy = code && REFUSED_BY.get(code);
  const more = { ...pause, ...(refusedBy && { refusedBy }) };
  return failed("no", new StoreUnavailableError(refused, { outcome: "none", ...more }));
}

/** What was asked for does not exist, which is an answer. */
const MISSING: ReadonlySet<ProblemCode> = new Set([
  "UNKNOWN_TASK",
  "UNKNOWN_ONCE",
  "UNKNOWN_SCHEDULE",
]);

/**
 * Returns the response unless it reports that the call was malformed or forbidden.
 * @throws InvalidOptionError, StoreMisconfiguredError
 */
export function checked(answer: Answer): Answer {
  const { status } = answer;
  const { code, errors, detail } = problemOf(answer);
  if (status < 300 || status === 409 || (code && MISSING.has(code))) return answer;
  if (status === 401 || status === 403) throw new RefusedKeyError(status, detail);
  const [field] = errors ?? [];
  if (field) throw new InvalidOptionError(field.path, field.problem);
  if (code === "BODY_TOO_LARGE") {
    throw new InvalidOptionError(
      "the request",
      `is too large for the server, which takes ${detail ?? "less"}: its limit is bodyBytes`,
    );
  }
  if (code === "UNKNOWN_ROUTE") {
    const remedy = "remove or correct the path of its URL, or upgrade a server that is older";
    throw new StoreMisconfiguredError(`the server has no such route (${detail}): ${remedy}`);
  }
  throw misconfigured(detail ?? `status ${status}`);
}

type QueryValue = string | number | boolean | undefined;

/** Builds `?a=1&b=2&b=3`, omitting undefined values; empty if none remain. */
export function queryOf(values: Record<string, QueryValue | readonly QueryValue[]>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const single of Array.isArray(value) ? value : [value]) {
      if (single !== undefined) parameters.append(name, String(single));
    }
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

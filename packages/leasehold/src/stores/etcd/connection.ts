/**
 * Calls to the members of a cluster. The result of a call:
 *
 *   answered ─────────────────────────────▶ the response, or a permanent error
 *   refused connection, "try later" ─▶ "no" ───┐ tries the next endpoint, each once; after
 *   reset, timeout, no leader ──────▶ "maybe" ─┘ "maybe" only if repeatable. The next call
 *                                               starts at that endpoint.
 *
 * An unavailable endpoint must not use up the time of the others: a repeatable call gives each untried
 * endpoint an equal share of the remaining time.
 */
import { type Env, withTimeout } from "../../env/index.js";
import type { AnswerOf, Method, RequestOf, WatchMessage, WatchRequest } from "./connection-api.js";
import { CallFailure, closed, unavailable } from "./failures.js";

export interface Connection {
  /** `http://host:port` of members of one cluster; at least one. */
  readonly endpoints: readonly string[];
  readonly user: { readonly name: string; readonly password: string } | null;
  readonly transport: Transport;
  readonly env: Env;
}

export interface RequestContext {
  /** The auth token; null without a user. */
  readonly token: string | null;
  /** Ends the call, which then rejects. */
  readonly signal: AbortSignal;
}

/** How a request reaches one member. All methods throw a {@link CallFailure}. */
export interface Transport {
  call(endpoint: string, method: Method, body: object, context: RequestContext): Promise<unknown>;
  watch(endpoint: string, body: WatchRequest, context: RequestContext): AsyncIterable<WatchMessage>;
  /** The next call to this member takes a new connection. */
  leave(endpoint: string): void;
  close(): void;
}

export interface Call<Name extends Method> {
  readonly method: Name;
  readonly body: RequestOf<Name>;
  /** Deadline by the monotonic clock, for all endpoints together. Default: in 5 s. */
  readonly deadlineMs?: number | undefined;
  /** True if running the call twice has the same effect as once. */
  readonly repeatable: boolean;
}

export const DEFAULT_TIMEOUT_MS = 5_000;

export class EtcdClient {
  readonly #closing = new AbortController();
  readonly #open = new Set<AbortController>();
  #at = 0;
  /** The token of the login that all calls share; undefined before the first, and when it has expired. */
  #login: Promise<string> | undefined;
  /** Whether that login followed a watch that was denied. */
  #isAfterDenial = false;

  constructor(readonly connection: Connection) {}

  /** Aborts when the client is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** @throws ClosedError */
  checkOpen(): void {
    if (this.closing.aborted) throw closed();
  }

  /** Aborts all calls in flight. */
  close(): void {
    this.#closing.abort();
    for (const call of this.#open) call.abort();
    this.connection.transport.close();
  }

  /** @throws CallFailure, ClosedError */
  async call<Name extends Method>(call: Call<Name>): Promise<AnswerOf<Name>> {
    const { endpoints, env } = this.connection;
    const { clock } = env;
    const deadlineMs = call.deadlineMs ?? clock.monotonic() + DEFAULT_TIMEOUT_MS;
    for (let tries = 1; ; tries += 1) {
      this.checkOpen();
      try {
        const leftMs = deadlineMs - clock.monotonic();
        const untried = call.repeatable ? Math.max(1, endpoints.length - tries + 1) : 1;
        return (await this.#try(call, leftMs / untried)) as AnswerOf<Name>;
      } catch (error) {
        if (!(error instanceof CallFailure) || !error.error.retryable) throw error;
        if (error.reason === "noLease" || error.reason === "compacted") throw error;
        if (error.error.outcome === "unknown" && !call.repeatable) throw error;
        // After an expired token, the call is retried with a new one.
        const most = endpoints.length + (error.reason === "unauthenticated" ? 1 : 0);
        if (tries >= most || clock.monotonic() >= deadlineMs) throw error;
      }
    }
  }

  /**
   * Yields the messages of a watch until it ends.
   * @param silenceMs ends the watch after this much silence
   * @throws CallFailure
   */
  async *watch(
    body: WatchRequest,
    { signal, silenceMs }: { signal: AbortSignal; silenceMs: number },
  ): AsyncGenerator<WatchMessage, void, void> {
    const cut = new AbortController();
    const abort = () => cut.abort();
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    const at = this.#at;
    const login = this.#authenticated(cut.signal);
    try {
      const token = login && (await this.#within(cut, DEFAULT_TIMEOUT_MS, login));
      const { transport } = this.connection;
      const context = { token, signal: cut.signal };
      const messages = transport.watch(this.#endpoint(at), body, context)[Symbol.asyncIterator]();
      for (let patienceMs = DEFAULT_TIMEOUT_MS; ; patienceMs = silenceMs) {
        const next = messages.next();
        // An abort reports the same error; no caller awaits this promise any more.
        next.catch(() => {});
        const message = await this.#within(cut, patienceMs, next);
        if (message.done) return;
        if (login) this.#checkDenial(message.value, login);
        yield message.value;
      }
    } catch (cause) {
      if (signal.aborted) return;
      this.#onFailure(at, cause, login);
      if (cut.signal.aborted) this.#forget(login);
      this.#leave(at);
      throw cause;
    } finally {
      signal.removeEventListener("abort", abort);
      cut.abort();
    }
  }

  async #try({ method, body }: Call<Method>, timeoutMs: number): Promise<unknown> {
    if (timeoutMs < 1) throw unavailable("the timeout expired before the request was sent", "none");
    const at = this.#at;
    const endpoint = this.#endpoint(at);
    const cut = new AbortController();
    const { signal } = cut;
    const { transport } = this.connection;
    let isSent = false;
    this.#open.add(cut);
    const login = this.#authenticated(signal);
    const send = async () => {
      const token = await login;
      isSent = true;
      return transport.call(endpoint, method, body, { token, signal });
    };
    try {
      return await this.#within(cut, timeoutMs, send());
    } catch (cause) {
      if (this.closing.aborted) throw closed();
      if (!signal.aborted) {
        this.#onFailure(at, cause, login);
        throw cause;
      }
      this.#forget(login);
      this.#leave(at);
      const what = `${endpoint} did not respond within ${Math.round(timeoutMs)} ms`;
      throw unavailable(what, isSent ? "unknown" : "none", "unreachable", cause);
    } finally {
      this.#open.delete(cut);
    }
  }

  /** The auth token, which etcd expires after a while; null without a user. */
  #authenticated(signal: AbortSignal): Promise<string> | null {
    const { user, transport } = this.connection;
    if (!user) return null;
    this.#login ??= (async () => {
      const at = this.#at;
      const context = { token: null, signal };
      try {
        const answer = await transport.call(this.#endpoint(at), "Authenticate", user, context);
        return (answer as AnswerOf<"Authenticate">).token;
      } catch (error) {
        this.#login = undefined;
        if (!(error instanceof CallFailure) || !error.error.retryable) throw error;
        this.#leave(at);
        // Without a token the call itself was not sent.
        throw unavailable(error.message, "none", "other", error);
      }
    })();
    return this.#login;
  }

  /**
   * etcd 3.4 answers a watch under an expired token as one without the permission; later versions name the token. So
   * a denial is permanent only if a new login is denied as well.
   * @throws CallFailure
   */
  #checkDenial(
    { created, canceled, cancel_reason: why = "" }: WatchMessage,
    login: Promise<string>,
  ): void {
    if (!canceled) {
      if (created) this.#isAfterDenial = false;
    } else if (/permission denied|auth token|auth store/.test(why)) {
      if (this.#isAfterDenial && this.#login === login) return;
      this.#isAfterDenial = true;
      throw unavailable(why, "none", "unauthenticated");
    }
  }

  /** @param login whose token the call had: that of others may be a newer one */
  #onFailure(at: number, failure: unknown, login: Promise<string> | null): void {
    if (!(failure instanceof CallFailure)) return;
    if (failure.reason === "unauthenticated") {
      this.#forget(login);
    } else if (failure.reason === "unreachable" || isOfMember(failure)) {
      this.#leave(at);
    }
  }

  /**
   * Also after silence: etcd lets a token of another cluster, such as the one that a restored backup replaces, wait until
   * its own log is as long as the other one was.
   */
  #forget(login: Promise<string> | null): void {
    if (this.#login === login) this.#login = undefined;
  }

  #endpoint(at: number): string {
    return this.connection.endpoints[at] as string;
  }

  /** The next call starts at another member. */
  #leave(at: number): void {
    const { endpoints, transport } = this.connection;
    transport.leave(this.#endpoint(at));
    if (this.#at === at) this.#at = (at + 1) % endpoints.length;
  }

  #within<T>(cut: AbortController, timeoutMs: number, promise: Promise<T>): Promise<T> {
    return withTimeout(this.connection.env.clock, timeoutMs, promise, () => {
      cut.abort();
      return promise;
    });
  }
}

/** Whether another member may do better: this one has too much to do, no leader, or does not serve yet. */
function isOfMember({ reason, error }: CallFailure): boolean {
  return reason === "other" && error.retryable;
}

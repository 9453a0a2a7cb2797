/**
 * Calls to etcd's JSON API, using only fetch, over several endpoints. The result of a call:
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
import {
  answeredFailure,
  CallFailure,
  closed,
  connectionFailure,
  unavailable,
} from "./failures.js";

export interface Connection {
  /** `http://host:port` of members of one cluster; at least one. */
  readonly endpoints: readonly string[];
  readonly user: { readonly name: string; readonly password: string } | null;
  readonly fetch: typeof globalThis.fetch;
  readonly env: Env;
}

export interface Call {
  readonly path: string;
  readonly body: object;
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
  #token: Promise<string> | undefined;

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
  }

  /** @throws CallFailure, ClosedError */
  async call<Answer>(call: Call): Promise<Answer> {
    const { endpoints, env } = this.connection;
    const { clock } = env;
    const deadlineMs = call.deadlineMs ?? clock.monotonic() + DEFAULT_TIMEOUT_MS;
    for (let tries = 1; ; tries += 1) {
      this.checkOpen();
      try {
        const leftMs = deadlineMs - clock.monotonic();
        const untried = call.repeatable ? Math.max(1, endpoints.length - tries + 1) : 1;
        return (await this.#try(call, leftMs / untried)) as Answer;
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
   * Yields the lines of a stream until it ends.
   * @param silenceMs ends the stream after this much silence
   * @throws CallFailure
   */
  async *stream(
    path: string,
    body: object,
    { signal, silenceMs }: { signal: AbortSignal; silenceMs: number },
  ): AsyncGenerator<string, void, void> {
    const cut = new AbortController();
    const abort = () => cut.abort();
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    const at = this.#at;
    try {
      const response = await this.#within(cut, DEFAULT_TIMEOUT_MS, this.#post(at, path, body, cut));
      if (response.status !== 200 || !response.body) {
        const text = await this.#within(cut, DEFAULT_TIMEOUT_MS, response.text());
        throw this.#refused(at, response.status, text);
      }
      const decoder = new TextDecoder();
      const reader: ReadableStreamDefaultReader<Uint8Array> = response.body.getReader();
      let rest = "";
      try {
        for (;;) {
          const read = reader.read();
          // An abort reports the same error; no caller awaits this promise any more.
          read.catch(() => {});
          const { done, value } = await this.#within(cut, silenceMs, read);
          if (done) return;
          const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
          rest = lines.pop() ?? "";
          for (const line of lines) if (line !== "") yield line;
        }
      } finally {
        reader.cancel().catch(() => {});
      }
    } catch (cause) {
      if (signal.aborted) return;
      this.#leave(at);
      if (cause instanceof CallFailure) throw cause;
      throw connectionFailure(cause, this.#endpoint(at));
    } finally {
      signal.removeEventListener("abort", abort);
      cut.abort();
    }
  }

  async #try({ path, body }: Call, timeoutMs: number): Promise<unknown> {
    if (timeoutMs < 1) throw unavailable("the timeout expired before the request was sent", "none");
    const at = this.#at;
    const cut = new AbortController();
    const { clock } = this.connection.env;
    const untilMs = clock.monotonic() + timeoutMs;
    this.#open.add(cut);
    try {
      const response = await this.#within(cut, timeoutMs, this.#post(at, path, body, cut));
      const text = await this.#within(cut, untilMs - clock.monotonic(), response.text());
      if (response.status !== 200) throw this.#refused(at, response.status, text);
      return answerOf(text, this.#endpoint(at));
    } catch (cause) {
      if (cause instanceof CallFailure) throw cause;
      this.#leave(at);
      if (this.closing.aborted) throw closed();
      if (clock.monotonic() >= untilMs) {
        const what = `${this.#endpoint(at)} did not respond within ${Math.round(timeoutMs)} ms`;
        throw unavailable(what, "unknown", "other", cause);
      }
      throw connectionFailure(cause, this.#endpoint(at));
    } finally {
      this.#open.delete(cut);
    }
  }

  async #post(at: number, path: string, body: object, cut: AbortController): Promise<Response> {
    const token = await this.#authenticated(cut);
    const { fetch } = this.connection;
    return fetch(this.#endpoint(at) + path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        // A member that lost its leader then ends the watch instead of staying silent.
        "grpc-metadata-hasleader": "true",
        ...(token !== null && { authorization: token }),
      },
      body: JSON.stringify(body),
      redirect: "manual",
      signal: cut.signal,
    });
  }

  /** The auth token, which etcd expires after a while; null without a user. */
  #authenticated(cut: AbortController): Promise<string> | null {
    const { user, fetch } = this.connection;
    if (!user) return null;
    this.#token ??= (async () => {
      const at = this.#at;
      let response: Response;
      let text: string;
      try {
        response = await fetch(`${this.#endpoint(at)}/v3/auth/authenticate`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(user),
          redirect: "manual",
          signal: cut.signal,
        });
        text = await response.text();
      } catch (cause) {
        // Without a token the call itself was not sent.
        const { message } = connectionFailure(cause, this.#endpoint(at));
        throw unavailable(message, "none", "other", cause);
      }
      if (response.status !== 200) {
        const failure = answeredFailure(response.status, text, this.#endpoint(at));
        if (!failure.error.retryable) throw failure;
        throw unavailable(failure.message, "none");
      }
      return (answerOf(text, this.#endpoint(at)) as { token: string }).token;
    })().catch((error) => {
      this.#token = undefined;
      if (error instanceof CallFailure && error.error.retryable) this.#leave(this.#at);
      throw error;
    });
    return this.#token;
  }

  #refused(at: number, status: number, text: string): CallFailure {
    const failure = answeredFailure(status, text, this.#endpoint(at));
    if (failure.reason === "unauthenticated") this.#token = undefined;
    else if (failure.error.outcome === "unknown") this.#leave(at);
    return failure;
  }

  #endpoint(at: number): string {
    return this.connection.endpoints[at] as string;
  }

  /** The next call starts at another member. */
  #leave(at: number): void {
    if (this.#at === at) this.#at = (at + 1) % this.connection.endpoints.length;
  }

  #within<T>(cut: AbortController, timeoutMs: number, promise: Promise<T>): Promise<T> {
    return withTimeout(this.connection.env.clock, timeoutMs, promise, () => {
      cut.abort();
      return promise;
    });
  }
}

function answerOf(text: string, origin: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw answeredFailure(404, text, origin);
  }
}

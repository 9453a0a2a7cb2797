/**
 * Calls to etcd's JSON API, by fetch alone, over several endpoints. What became of one:
 *
 *   answered ─────────────────────────────▶ the answer, or what etcd refuses for good
 *   refused connection, "try later" ─▶ "no" ───┐ the next endpoint, until each was asked once; after
 *   reset, timeout, no leader ──────▶ "maybe" ─┘ "maybe" only for what may be repeated. The next call
 *                                               begins with that endpoint.
 *
 * An endpoint that does not answer must not use up the time of the others: where a call may be
 * repeated, each endpoint that was not tried yet has its share of what is left.
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
  /** `http://host:port`, each a member of the same cluster; at least one. */
  readonly endpoints: readonly string[];
  readonly user: { readonly name: string; readonly password: string } | null;
  readonly fetch: typeof globalThis.fetch;
  readonly env: Env;
}

export interface Call {
  readonly path: string;
  readonly body: object;
  /** By the monotonic clock, for all endpoints together. Default: in 5 s. */
  readonly deadlineMs?: number | undefined;
  /** Doing it twice does no more than doing it once. */
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

  /** Cuts off what is under way. */
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
        // Whose token has ended is asked again, with a new one.
        const most = endpoints.length + (error.reason === "unauthenticated" ? 1 : 0);
        if (tries >= most || clock.monotonic() >= deadlineMs) throw error;
      }
    }
  }

  /**
   * The lines of a stream, as text, until it ends.
   * @param silenceMs ends it when nothing has come for so long
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
          // An abort says the same, and nobody listens to this any more.
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
    if (timeoutMs < 1) throw unavailable("the time was over before it was sent", "none");
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
        const what = `${this.#endpoint(at)} did not answer within ${Math.round(timeoutMs)} ms`;
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
        // A member that has lost its leader ends a watch instead of being silent.
        "grpc-metadata-hasleader": "true",
        ...(token !== null && { authorization: token }),
      },
      body: JSON.stringify(body),
      redirect: "manual",
      signal: cut.signal,
    });
  }

  /** The token of our user, which etcd forgets after a while; null where no user is named. */
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
        // Whatever we wanted to ask was not asked.
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

  /** Whoever asks next asks another member. */
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

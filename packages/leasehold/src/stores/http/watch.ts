/**
 * Watches a server's notifications: repeats GET /v1/events until the watcher stops.
 *
 *   connect ──▶ events ──▶ broken, or silent for 45 s ──▶ backoff ──▶ connect with Last-Event-ID
 *      │                                                     ▲
 *      ├── no connection, 5xx, 429 ──────────────────────────┤
 *      ├── 401, and a function returns the token ────────────┘
 *      └── any other status ──▶ thrown
 *
 * After a reconnect the server sends the missed events, or `resync` if it no longer has them.
 */
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { Backoff, sleep, withTimeout } from "../../env/index.js";
import { type Failed, LeaseholdError, StoreUnavailableError } from "../../lease/index.js";
import type { EventTopic } from "../../wire/index.js";
import {
  checked,
  connectionFailure,
  DEFAULT_BUDGET_MS,
  failed,
  type HttpClient,
  hasFailed,
  isFailed,
  misconfigured,
  queryOf,
  readAnswer,
  unavailable,
} from "./connection.js";

/** Three times the interval at which the server sends a keep-alive. */
const SILENCE_MS = 45_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };
/** The server's events have less than 2,000 characters. */
const LONGEST_EVENT = 64 * 1024;

export type ServerEvent =
  | { readonly type: "resync" }
  | { readonly type: "lease"; readonly resource: string; readonly wakes?: string }
  | { readonly type: "task"; readonly queue: string }
  | { readonly type: "ended"; readonly id: string };

interface Following {
  readonly of: EventTopic;
  readonly namespace: string;
  /** Ends the watch, as does closing the client. */
  readonly signal: AbortSignal;
}

/**
 * Yields the server's events. The first event is a `resync`, and so is the first after a gap that the
 * server cannot fill.
 * @throws INVALID_OPTION, CLOSED; STORE_MISCONFIGURED if the responder is not a Leasehold server
 */
export async function* followEvents(
  client: HttpClient,
  { of, namespace, signal }: Following,
): AsyncGenerator<ServerEvent, void, void> {
  client.checkNamespace(namespace);
  client.checkOpen();
  // AbortSignal.any would leak: a long-lived signal keeps the remains of each watch.
  const ending = new AbortController();
  const end = () => ending.abort();
  const ends = [signal, client.closing];
  for (const each of ends) each.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  try {
    yield* untilEnded(client, of, ending.signal);
  } finally {
    for (const each of ends) each.removeEventListener("abort", end);
    end();
  }
}

async function* untilEnded(
  client: HttpClient,
  of: EventTopic,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent, void, void> {
  const { servers, env } = client.connection;
  const { clock, logger, random } = env;
  let lastEventId: string | undefined;
  const backoff = new Backoff(random, RECONNECT);
  while (!signal.aborted) {
    const startMs = clock.monotonic();
    let retryAfterMs = 0;
    const stream = new ServerStream(client, signal);
    try {
      const failure = await stream.open(`/v1/events${queryOf({ of })}`, lastEventId);
      if (failure) {
        if (!failure.error.retryable) throw failure.error;
        const isLeft = servers.current !== stream.server;
        if (failure.error instanceof StoreUnavailableError && !isLeft) {
          retryAfterMs = failure.error.retryAfterMs ?? 0;
        }
      } else {
        for await (const message of stream.messages()) {
          lastEventId = message.id ?? lastEventId;
          const event = eventOf(message);
          if (event) yield event;
        }
      }
    } finally {
      stream.close();
    }
    if (signal.aborted) return;
    // A connection that lasted shows that the network works.
    if (clock.monotonic() - startMs >= RECONNECT.longestMs) backoff.reset();
    logger.debug({ of }, "the event stream broke; reconnecting");
    await sleep(clock, retryAfterMs + backoff.nextMs(), { signal }).catch(() => {});
  }
}

/** One connection. */
class ServerStream {
  readonly server: string;
  readonly #client: HttpClient;
  readonly #signal: AbortSignal;
  readonly #cut = new AbortController();
  readonly #close = () => this.close();
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(client: HttpClient, signal: AbortSignal) {
    this.server = client.connection.servers.current;
    this.#client = client;
    this.#signal = signal;
    signal.addEventListener("abort", this.#close, { once: true });
  }

  /**
   * Returns undefined once the server has started to send events.
   * @throws as {@link checked}
   */
  async open(path: string, lastEventId: string | undefined): Promise<Failed | undefined> {
    const { servers, fetch, headers, renewsToken } = this.#client.connection;
    const resuming = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    try {
      const response = await this.#within(
        DEFAULT_BUDGET_MS,
        fetch(`${this.server}${path}`, {
          headers: {
            ...headers,
            ...servers.headers,
            accept: "text/event-stream",
            ...resuming,
          },
          redirect: "manual",
          signal: this.#cut.signal,
        }),
      );
      const type = response.headers.get("content-type") ?? "";
      if (response.status === 200 && type.startsWith("text/event-stream") && response.body) {
        this.#reader = response.body.getReader();
        return;
      }
      if (hasFailed(response)) servers.leave(this.server);
      const text = await this.#within(DEFAULT_BUDGET_MS, response.text());
      const answer = readAnswer(response, text);
      if (isFailed(answer)) return answer;
      if (answer.status === 401 && renewsToken) {
        return failed("no", unavailable("no", "it refuses the token of this client"));
      }
      checked(answer);
      throw misconfigured("the response is not an event stream");
    } catch (error) {
      if (error instanceof StoreUnavailableError) return failed("no", error);
      if (error instanceof LeaseholdError) throw error;
      if (!this.#signal.aborted) servers.leave(this.server);
      return connectionFailure(error, new URL(this.server).origin);
    }
  }

  /** Yields messages until the connection breaks, is silent for too long, or is closed. */
  async *messages(): AsyncGenerator<EventSourceMessage, void, void> {
    const received: EventSourceMessage[] = [];
    const parser = createParser({
      onEvent: (message) => received.push(message),
      onError: ({ type }) => {
        if (type === "max-buffer-size-exceeded") this.close();
      },
      maxBufferSize: LONGEST_EVENT,
    });
    const decoder = new TextDecoder();
    while (this.#reader && !this.#cut.signal.aborted) {
      const read = this.#reader.read().catch(() => undefined);
      const chunk = await this.#within(SILENCE_MS, read);
      if (!chunk || chunk.done) return;
      parser.feed(decoder.decode(chunk.value, { stream: true }));
      yield* received.splice(0);
    }
  }

  close(): void {
    this.#signal.removeEventListener("abort", this.#close);
    this.#cut.abort();
    // An app's own fetch may ignore signals.
    this.#reader?.cancel().catch(() => {});
  }

  #within<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
    return withTimeout(this.#client.connection.env.clock, timeoutMs, promise, () => {
      this.close();
      return promise;
    });
  }
}

/** Returns null for event types of newer servers. */
function eventOf({ event, data }: EventSourceMessage): ServerEvent | null {
  const field = { lease: "resource", task: "queue", ended: "id" }[event ?? ""];
  if (field === undefined) return event === "resync" ? { type: "resync" } : null;
  const value = memberOf(data, field);
  // The change cannot be identified, so the watcher reads everything again.
  if (value === null) return { type: "resync" };
  if (event === "task") return { type: event, queue: value };
  if (event === "ended") return { type: event, id: value };
  const wakes = memberOf(data, "wakes");
  return { type: "lease", resource: value, ...(wakes !== null && { wakes }) };
}

function memberOf(json: string, name: string): string | null {
  try {
    const value = (JSON.parse(json) as Record<string, unknown> | null)?.[name];
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}

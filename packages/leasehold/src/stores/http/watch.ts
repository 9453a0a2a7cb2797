/**
 * Following a server's hints: GET /v1/events, again and again until whoever follows has enough.
 *
 *   connect ──▶ events ──▶ broken, or silent for 45 s ──▶ backoff ──▶ connect with Last-Event-ID
 *      │                                                     ▲
 *      ├── no connection, 5xx, 429 ──────────────────────────┘
 *      └── any other answer ──▶ thrown
 *
 * What was missed meanwhile the server tells, or it says `resync`; so nothing is decided here.
 */
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { type Failed, LeaseholdError, StoreUnavailableError } from "../../core/index.js";
import { Backoff, sleep, withTimeout } from "../../env/index.js";
import type { EventTopic } from "../../wire/index.js";
import {
  checked,
  connectionFailure,
  DEFAULT_BUDGET_MS,
  type HttpClient,
  isFailed,
  misconfigured,
  queryOf,
  readAnswer,
} from "./connection.js";

/** Three times what the server lets pass without a sign of life. */
const SILENCE_MS = 45_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };
/** Ours have less than 2,000 characters. */
const LONGEST_EVENT = 64 * 1024;

export type ServerEvent =
  | { readonly type: "resync" }
  | { readonly type: "lease"; readonly resource: string; readonly wakes?: string }
  | { readonly type: "task"; readonly queue: string };

interface Following {
  readonly of: EventTopic;
  readonly namespace: string;
  /** Ends it, as the closing of the client does. */
  readonly signal: AbortSignal;
}

/**
 * The first event is a `resync`; so is the first after a gap that the server cannot fill.
 * @throws INVALID_OPTION, CLOSED, STORE_MISCONFIGURED where no Leasehold server answers
 */
export async function* followEvents(
  client: HttpClient,
  { of, namespace, signal }: Following,
): AsyncGenerator<ServerEvent, void, void> {
  client.checkNamespace(namespace);
  client.checkOpen();
  // Not AbortSignal.any: a signal that lives long would keep what is left of each watch.
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
  const { clock, logger, random } = client.connection.env;
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
        if (failure.error instanceof StoreUnavailableError) {
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
    // One that held for a while says that the way is good.
    if (clock.monotonic() - startMs >= RECONNECT.longestMs) backoff.reset();
    logger.debug({ of }, "the stream of events broke; connecting again");
    await sleep(clock, retryAfterMs + backoff.nextMs(), { signal }).catch(() => {});
  }
}

/** One connection. */
class ServerStream {
  readonly #client: HttpClient;
  readonly #signal: AbortSignal;
  readonly #cut = new AbortController();
  readonly #close = () => this.close();
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(client: HttpClient, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
    signal.addEventListener("abort", this.#close, { once: true });
  }

  /**
   * Undefined once the server has begun to answer with events.
   * @throws what {@link checked} throws
   */
  async open(path: string, lastEventId: string | undefined): Promise<Failed | undefined> {
    const { baseUrl, fetch, headers } = this.#client.connection;
    const resuming = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    try {
      const response = await this.#within(
        DEFAULT_BUDGET_MS,
        fetch(`${baseUrl}${path}`, {
          headers: { ...headers, accept: "text/event-stream", ...resuming },
          redirect: "manual",
          signal: this.#cut.signal,
        }),
      );
      const type = response.headers.get("content-type") ?? "";
      if (response.status === 200 && type.startsWith("text/event-stream") && response.body) {
        this.#reader = response.body.getReader();
        return;
      }
      const text = await this.#within(DEFAULT_BUDGET_MS, response.text());
      const answer = readAnswer(response, text);
      if (isFailed(answer)) return answer;
      checked(answer);
      throw misconfigured("the answer is no stream of events");
    } catch (error) {
      if (error instanceof LeaseholdError) throw error;
      return connectionFailure(error, new URL(baseUrl).origin);
    }
  }

  /** Until the connection breaks, is silent for too long, or is closed. */
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
    // For a fetch that knows no signals: an app's own.
    this.#reader?.cancel().catch(() => {});
  }

  #within<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
    return withTimeout(this.#client.connection.env.clock, timeoutMs, promise, () => {
      this.close();
      return promise;
    });
  }
}

/** Null for what a newer server may tell. */
function eventOf({ event, data }: EventSourceMessage): ServerEvent | null {
  const field = { lease: "resource", task: "queue" }[event ?? ""];
  if (field === undefined) return event === "resync" ? { type: "resync" } : null;
  const value = memberOf(data, field);
  // Something has changed, and we cannot tell what.
  if (value === null) return { type: "resync" };
  if (event !== "lease") return { type: "task", queue: value };
  const wakes = memberOf(data, "wakes");
  return { type: event, resource: value, ...(wakes !== null && { wakes }) };
}

function memberOf(json: string, name: string): string | null {
  try {
    const value = (JSON.parse(json) as Record<string, unknown> | null)?.[name];
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}

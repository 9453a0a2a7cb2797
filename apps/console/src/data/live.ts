/**
 * The server's event streams.
 *
 *   GET /v1/events    ──▶ notifications ──▶ the visible queries are refetched
 *   GET /v1/activity  ──▶ activity      ──▶ lists of events
 *        ▲                  (both: once per animation frame; in a hidden tab: once a second)
 *        └── broken: reconnect after a backoff, with Last-Event-ID, so that no event is missed;
 *            hidden: disconnect until the page is visible again
 */
import type { Query, QueryClient } from "@tanstack/react-query";
import { createParser } from "eventsource-parser";
import type { Activity } from "leasehold/internal/wire";
import { ApiError, send } from "./api.js";

export type StreamState = "connecting" | "live" | "broken";

export interface ServerEvent<Data> {
  readonly id: string;
  /** `resync`: the list starts over, and `data` is empty. */
  readonly type: string;
  readonly data: Data;
}

const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
const HIDDEN_FRAME_MS = 1_000;
/** The key or the role is refused: a retry would give the same response. */
const FINAL = [401, 403, 404];

/**
 * Resolves when the page is visible. Over HTTP/1.1 a browser has six connections to a server, for all tabs
 * together, so a hidden tab must not keep two of them. It resumes where it was when it becomes visible.
 */
function untilVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    document.addEventListener("visibilitychange", done);
    signal.addEventListener("abort", done);
    done();
  });
}

class Stream<Data> {
  readonly #path: string;
  #state: StreamState = "connecting";
  #lastId: string | undefined;
  #buffer: ServerEvent<Data>[] = [];
  #scheduled = false;
  #late: ReturnType<typeof setTimeout> | undefined;
  readonly #readers = new Set<(events: readonly ServerEvent<Data>[]) => void>();
  readonly #watchers = new Set<() => void>();

  constructor(path: string) {
    this.#path = path;
  }

  get state(): StreamState {
    return this.#state;
  }

  /** Calls `reader` once a frame with the events received since the last one, in order. */
  read(reader: (events: readonly ServerEvent<Data>[]) => void): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** Calls `watcher` when `state` changes. */
  watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  /** Follows the stream until `signal` aborts or the server refuses the stream for good. */
  async follow(signal: AbortSignal): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    this.#lastId = undefined;
    while (!signal.aborted) {
      await untilVisible(signal);
      const hiding = new AbortController();
      const onChange = () => document.hidden && hiding.abort();
      document.addEventListener("visibilitychange", onChange);
      try {
        await this.#connection(AbortSignal.any([signal, hiding.signal]), () => {
          retryMs = FIRST_RETRY_MS;
        });
      } catch (error) {
        if (signal.aborted) return;
        if (hiding.signal.aborted) continue;
        if (error instanceof ApiError && FINAL.includes(error.status)) {
          this.#become("broken");
          return;
        }
      } finally {
        document.removeEventListener("visibilitychange", onChange);
      }
      this.#become("broken");
      await new Promise((resolve) => setTimeout(resolve, retryMs * (0.5 + Math.random())));
      retryMs = Math.min(LAST_RETRY_MS, retryMs * 2);
    }
  }

  async #connection(signal: AbortSignal, onOpen: () => void): Promise<void> {
    const resuming = this.#lastId === undefined ? {} : { "last-event-id": this.#lastId };
    const response = await send("GET", this.#path, {
      signal,
      headers: { accept: "text/event-stream", ...resuming },
    });
    if (!response.body) return;
    onOpen();
    this.#become("live");
    const parser = createParser({
      onEvent: ({ id = "", event = "message", data }) => {
        if (id) this.#lastId = id;
        this.#push({ id, type: event, data: JSON.parse(data) as Data });
      },
    });
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
    }
  }

  #push(event: ServerEvent<Data>): void {
    this.#buffer.push(event);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Browsers suspend animation frames in hidden tabs, also one that is already requested. The timer
    // flushes instead, so that the page is up to date when it becomes visible.
    this.#late = setTimeout(() => this.#flush(), HIDDEN_FRAME_MS);
    if (!document.hidden) requestAnimationFrame(() => this.#flush());
  }

  /** Runs at the frame or at the timer, whichever comes first; the other may find an empty buffer. */
  #flush(): void {
    clearTimeout(this.#late);
    this.#scheduled = false;
    const events = this.#buffer;
    if (events.length === 0) return;
    this.#buffer = [];
    for (const reader of this.#readers) reader(events);
  }

  #become(state: StreamState): void {
    if (state === this.#state) return;
    this.#state = state;
    for (const watcher of this.#watchers) watcher();
  }
}

interface ChangeNotification {
  readonly resource?: string;
  readonly queue?: string;
}

/** Notifications from the store, also of changes made by other servers and programs. */
export const notifications = new Stream<ChangeNotification>("/v1/events");
/** Requests that this server handled, for people to read. */
export const activity = new Stream<Activity>("/v1/activity?last=200");

/** Which queries an event makes stale, by the first part of their key. */
const STALE_QUERIES: Readonly<Record<string, readonly string[]>> = {
  lease: ["leases", "resource", "elections", "overview", "workers", "once"],
  task: ["tasks", "task", "workers", "overview"],
  operator: ["audit", "pauses", "keys", "generator", "leases", "resource", "tasks", "task"],
};
/** A busy server sends events in every frame. Queries are refetched at most this often. */
const REFRESH_EVERY_MS = 400;

/** Whether a list is loading its next page. A refetch would cancel that request. */
const isLoadingMore = ({ state }: Query) =>
  state.fetchStatus === "fetching" && state.fetchMeta?.fetchMore !== undefined;

/** Refetches visible queries when an event makes them stale. Returns the function that stops it. */
export function refreshQueries(queries: QueryClient): () => void {
  const stale = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let refreshedMs = -REFRESH_EVERY_MS;
  const refresh = () => {
    timer = undefined;
    refreshedMs = performance.now();
    const names = new Set(stale);
    stale.clear();
    void queries.invalidateQueries({
      predicate(query) {
        const name = String(query.queryKey[0]);
        if (!names.has(name)) return false;
        if (!isLoadingMore(query)) return true;
        // Refetch it when the next page has arrived.
        stale.add(name);
        return false;
      },
    });
    schedule();
  };
  const schedule = () => {
    if (stale.size === 0 || timer !== undefined) return;
    timer = setTimeout(refresh, Math.max(0, REFRESH_EVERY_MS - (performance.now() - refreshedMs)));
  };
  const markStale = (topics: readonly string[]) => {
    for (const topic of topics) for (const name of STALE_QUERIES[topic] ?? []) stale.add(name);
    schedule();
  };
  const stops = [
    notifications.read((events) =>
      markStale(
        events.flatMap(({ type }) => (type === "resync" ? Object.keys(STALE_QUERIES) : [type])),
      ),
    ),
    activity.read((events) => markStale(events.flatMap(({ data }) => data.topic ?? []))),
  ];
  return () => {
    for (const stop of stops) stop();
    clearTimeout(timer);
  };
}

/**
 * What happens on the server, as it happens.
 *
 *   GET /v1/events    ──▶ hints of change ──▶ queries that are shown are read again
 *   GET /v1/activity  ──▶ what happened   ──▶ lists of events
 *        ▲                  (both: once per animation frame; a hidden tab: once a second)
 *        └── broken: again after a while, with Last-Event-ID, so that nothing is missed;
 *            hidden: given up, until the page is shown again
 */
import type { Query, QueryClient } from "@tanstack/react-query";
import { createParser } from "eventsource-parser";
import type { Activity } from "leasehold/internal/wire";
import { ApiError, send } from "./api.js";

export type StreamState = "connecting" | "live" | "broken";

export interface ServerEvent<Data> {
  readonly id: string;
  /** `resync`: the list begins anew, and `data` is empty. */
  readonly type: string;
  readonly data: Data;
}

const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
const HIDDEN_FRAME_MS = 1_000;
/** The key, or the role: it would be the same again. */
const FINAL = [401, 403, 404];

/**
 * Over HTTP/1.1 a browser has six connections to a server, for all of its tabs: those that nobody looks at
 * must not keep two each. They go on where they were when somebody looks again.
 */
function shown(signal: AbortSignal): Promise<void> {
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

  /** Told of all that came within a frame, in order. */
  read(reader: (events: readonly ServerEvent<Data>[]) => void): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** Told when `state` changes. */
  watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  /** Follows until the signal aborts, or the server says that it never will tell. */
  async follow(signal: AbortSignal): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    this.#lastId = undefined;
    while (!signal.aborted) {
      await shown(signal);
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
    // Frames stop while nobody looks, one that is asked for already too; the picture must be right when
    // somebody looks again.
    this.#late = setTimeout(() => this.#flush(), HIDDEN_FRAME_MS);
    if (!document.hidden) requestAnimationFrame(() => this.#flush());
  }

  /** At the frame or after the while, whichever comes first; the other may find nothing to do. */
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

interface Hint {
  readonly resource?: string;
  readonly queue?: string;
}

/** Hints of change, from the store: also of what other servers and programs on the database do. */
export const hints = new Stream<Hint>("/v1/events");
/** What went through this server, for people. */
export const activity = new Stream<Activity>("/v1/activity?last=200");

/** What an event makes out of date, by the first part of the key of a query. */
const TOUCHES: Readonly<Record<string, readonly string[]>> = {
  lease: ["leases", "resource", "elections", "overview", "workers"],
  task: ["tasks", "task", "workers", "overview"],
  operator: ["audit", "pauses", "generator", "leases", "resource", "tasks", "task"],
};
/** A busy server tells of something in every frame: what is shown is read again this often at most. */
const REFRESH_EVERY_MS = 400;

/** Somebody has asked for the next page of a list. Reading the list again would end that, unanswered. */
const readsOn = ({ state }: Query) =>
  state.fetchStatus === "fetching" && state.fetchMeta?.fetchMore !== undefined;

/** Has the queries that are shown read again when something that they show has changed. */
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
        if (!readsOn(query)) return true;
        // When that has come.
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
  const touch = (topics: readonly string[]) => {
    for (const topic of topics) for (const name of TOUCHES[topic] ?? []) stale.add(name);
    schedule();
  };
  const stops = [
    hints.read((events) =>
      touch(events.flatMap(({ type }) => (type === "resync" ? Object.keys(TOUCHES) : [type]))),
    ),
    activity.read((events) => touch(events.flatMap(({ data }) => data.topic ?? []))),
  ];
  return () => {
    for (const stop of stops) stop();
    clearTimeout(timer);
  };
}

/**
 * What happens on the server, as it happens: one stream for the whole console.
 *
 *   GET /v1/activity ──▶ parser ──▶ buffer ──▶ once per animation frame ──▶ listeners, query cache
 *        ▲                                                                  (a hidden tab: once a second)
 *        └── broken: again after a while, with Last-Event-ID, so that nothing is missed
 */
import type { QueryClient } from "@tanstack/react-query";
import { createParser } from "eventsource-parser";
import { ApiError, send } from "./api.js";

/** As the server tells it; `type` says what the rest is. */
export interface Activity {
  readonly id: string;
  readonly type: string;
  readonly at: string;
  readonly resource?: string;
  readonly [field: string]: unknown;
}

export type LiveState = "connecting" | "live" | "broken";

const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
const HIDDEN_FRAME_MS = 1_000;

export class Live {
  #state: LiveState = "connecting";
  #lastId: string | undefined;
  #buffer: Activity[] = [];
  #scheduled = false;
  readonly #readers = new Set<(events: readonly Activity[]) => void>();
  readonly #watchers = new Set<() => void>();

  get state(): LiveState {
    return this.#state;
  }

  /** Told of all that came within a frame, in order. */
  read(reader: (events: readonly Activity[]) => void): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** Told when `state` changes. */
  watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  /** Follows until the signal aborts. */
  async follow(signal: AbortSignal): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    while (!signal.aborted) {
      try {
        await this.#connection(signal, () => {
          retryMs = FIRST_RETRY_MS;
        });
      } catch (error) {
        if (signal.aborted) return;
        // Not ours to repeat: the sign-in follows, or this server has no such stream.
        if (error instanceof ApiError && [401, 403, 404].includes(error.status)) {
          this.#become("broken");
          return;
        }
      }
      this.#become("broken");
      await new Promise((resolve) => setTimeout(resolve, retryMs * (0.5 + Math.random())));
      retryMs = Math.min(LAST_RETRY_MS, retryMs * 2);
    }
  }

  async #connection(signal: AbortSignal, onOpen: () => void): Promise<void> {
    const resuming = this.#lastId === undefined ? {} : { "last-event-id": this.#lastId };
    const response = await send("GET", "/v1/activity", {
      ...{ signal, headers: { accept: "text/event-stream", ...resuming } },
    });
    if (!response.body) return;
    onOpen();
    this.#become("live");
    const parser = createParser({
      onEvent: ({ id, event, data }) => {
        if (id !== undefined) this.#lastId = id;
        this.#push({
          ...(JSON.parse(data) as object),
          id: id ?? "",
          type: event ?? "",
        } as Activity);
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

  #push(event: Activity): void {
    this.#buffer.push(event);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Frames stop while nobody looks; the picture must be right when somebody looks again.
    if (document.hidden) setTimeout(() => this.#flush(), HIDDEN_FRAME_MS);
    else requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const events = this.#buffer;
    this.#buffer = [];
    for (const reader of this.#readers) reader(events);
  }

  #become(state: LiveState): void {
    if (state === this.#state) return;
    this.#state = state;
    for (const watcher of this.#watchers) watcher();
  }
}

/** What an event makes out of date, by the first part of the query's key. */
const TOUCHES: readonly [RegExp, readonly string[]][] = [
  [/^resync/, ["leases", "resource", "tasks", "task", "elections", "overview", "workers", "audit"]],
  [/^lease/, ["leases", "resource", "elections", "overview"]],
  [/^task/, ["tasks", "task", "workers", "overview"]],
  [
    /^(pause|resume|audit|generator)/,
    ["audit", "pauses", "generator", "leases", "tasks", "overview"],
  ],
];
/** A busy server tells of something in every frame: a list is read again this often at most. */
const REFRESH_EVERY_MS = 400;

/** Has the queries that are shown read again when something that they show has changed. */
export function refreshQueries(live: Live, queries: QueryClient): () => void {
  const stale = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let refreshedMs = -REFRESH_EVERY_MS;
  const refresh = () => {
    timer = undefined;
    refreshedMs = performance.now();
    const names = new Set(stale);
    stale.clear();
    void queries.invalidateQueries({ predicate: ({ queryKey }) => names.has(String(queryKey[0])) });
  };
  const stop = live.read((events) => {
    for (const { type } of events) {
      for (const [pattern, names] of TOUCHES) {
        if (pattern.test(type)) for (const name of names) stale.add(name);
      }
    }
    if (stale.size === 0 || timer !== undefined) return;
    const sinceMs = performance.now() - refreshedMs;
    timer = setTimeout(refresh, Math.max(0, REFRESH_EVERY_MS - sinceMs));
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}

export const live = new Live();

/**
 * Forwards the stores' notifications to the streams of /v1/events.
 *
 *   leases.watch ───────┐                              ┌─▶ stream, at its own position
 *   tasks.watch ────────┼─▶ the last 1,000 events ─────┼─▶ stream
 *   tasks.watchResults ─┘   each with the next number  └─▶ stream
 *
 * The hub watches the stores once, from the first stream until a minute after the last, so that clients
 * that reconnect can resume. Event ids are `<epoch>.<number>`; each feed draws a new epoch.
 *
 *   a new stream, another epoch,          ─▶ `resync` once all of the stream's watches are established,
 *   a number that is no longer kept          then the events after it
 *   a number that is still kept           ─▶ the events after it
 *   a watch breaks and is re-established  ─▶ `resync` for its streams, instead of the missed events
 *   a reader that falls behind            ─▶ its number is no longer kept: as above
 */
import type { Env, LeaseStore, Timer } from "leasehold";
import type { TaskStore } from "leasehold/internal";
import { jittered, sleep } from "leasehold/internal";
import type { EventTopic } from "leasehold/internal/wire";
import {
  type Followed,
  type Listener,
  PIECE_LENGTH,
  Ring,
  Streams,
  UNRESTRICTED,
} from "./event-stream.js";

const KEPT_EVENTS = 1_000;
/** How long the watches stay after the last stream, for clients that reconnect. */
const LINGER_MS = 60_000;
const RESUBSCRIBE_MS = 1_000;

export interface Watched {
  readonly env: Env;
  readonly namespace: string;
  readonly leases: Pick<LeaseStore, "watch">;
  readonly tasks: Pick<TaskStore, "watch" | "watchResults">;
}

interface Event {
  readonly topic: EventTopic;
  readonly name: "resync" | "lease" | "task" | "ended";
  readonly data: { readonly resource: string } | object;
}

export class EventHub {
  readonly #watched: Watched;
  readonly #streams: Streams;
  #feed: Feed | undefined;
  #stopped: Promise<void> = Promise.resolve();
  #linger: Timer | undefined;
  #closed = false;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#streams = new Streams(watched.env.clock);
  }

  /** A stream that joins at its first read and ends when it is cancelled or the hub closes. */
  stream(
    topics: readonly EventTopic[],
    lastEventId: string | undefined,
    listener: Listener = UNRESTRICTED,
  ): ReadableStream {
    const join = () => this.#join()?.followedBy(topics, listener.sees) ?? null;
    return this.#streams.open(lastEventId, listener, join, () => this.#left());
  }

  /** How many are open. */
  get streams(): number {
    return this.#streams.count;
  }

  /** Ends all streams and the watches. */
  close(): Promise<void> {
    this.#closed = true;
    this.#stop();
    this.#streams.end();
    return this.#stopped;
  }

  /** Null when the hub is closed. */
  #join(): Feed | null {
    if (this.#closed) return null;
    this.#linger?.cancel();
    this.#feed ??= new Feed(this.#watched, () => this.#streams.wake());
    return this.#feed;
  }

  #left(): void {
    if (this.streams > 0 || this.#closed) return;
    const { clock } = this.#watched.env;
    this.#linger?.cancel();
    this.#linger = clock.timer(LINGER_MS, () => this.#stop(), { background: true });
  }

  #stop(): void {
    this.#linger?.cancel();
    if (!this.#feed) return;
    this.#stopped = this.#feed.stop();
    this.#feed = undefined;
  }
}

/** The recent events of one period of watching. */
class Feed {
  readonly #ring: Ring<Event>;
  readonly #onChange: () => void;
  readonly #established = new Set<EventTopic>();
  readonly #stopping = new AbortController();
  readonly #following: Promise<unknown>;

  constructor({ env, namespace, leases, tasks }: Watched, onChange: () => void) {
    this.#ring = new Ring(env.random, KEPT_EVENTS);
    this.#onChange = onChange;
    const { signal } = this.#stopping;
    this.#following = Promise.all([
      this.#follow(env, "leases", async () => {
        for await (const event of leases.watch(namespace, { signal })) {
          if (event.type === "resync") this.#onEstablished("leases");
          else {
            const { resource, wakes } = event;
            const data = { resource, ...(wakes !== undefined && { wakes }) };
            this.#add({ topic: "leases", name: "lease", data });
          }
        }
      }),
      this.#follow(env, "tasks", async () => {
        for await (const event of tasks.watch(namespace, { signal })) {
          // It is not due yet: workers that wait at the server get it in time.
          if (event.type === "ready" && event.inMs !== undefined) continue;
          if (event.type === "resync") this.#onEstablished("tasks");
          else this.#add({ topic: "tasks", name: "task", data: { queue: event.queue } });
        }
      }),
      this.#follow(env, "results", async () => {
        for await (const event of tasks.watchResults(namespace, { signal })) {
          if (event.type === "resync") this.#onEstablished("results");
          else this.#add({ topic: "results", name: "ended", data: { id: event.id } });
        }
      }),
    ]);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#following;
  }

  followedBy(topics: readonly EventTopic[], sees: Listener["sees"]): Followed {
    const { signal } = this.#stopping;
    return {
      get stopped() {
        return signal.aborted;
      },
      positionOf: (lastEventId) => this.#ring.positionOf(lastEventId),
      after: (position) => this.#after(position, topics, sees),
    };
  }

  /** Null while a `resync` must wait for a watch. */
  #after(
    position: number | null,
    topics: readonly EventTopic[],
    sees: Listener["sees"],
  ): ReturnType<Followed["after"]> {
    const { last } = this.#ring;
    const news = position === null ? null : this.#ring.after(position);
    if (!news && !topics.every((topic) => this.#established.has(topic))) return null;
    const resync = { text: this.#ring.format(last, "resync", {}), position: last };
    if (!news) return resync;
    let text = "";
    for (const [number, { topic, name, data }] of news) {
      if (text.length >= PIECE_LENGTH) return { text, position: number - 1 };
      if (!topics.includes(topic)) continue;
      // After a resync the client reads everything again, so the other events are unnecessary.
      if (name === "resync") return resync;
      if (!sees("resource" in data ? data.resource : null)) continue;
      text += this.#ring.format(number, name, data);
    }
    return { text, position: last };
  }

  #onEstablished(topic: EventTopic): void {
    this.#established.add(topic);
    this.#add({ topic, name: "resync", data: {} });
  }

  #add(event: Event): void {
    this.#ring.add(event);
    this.#onChange();
  }

  async #follow(env: Env, topic: EventTopic, watch: () => Promise<void>): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await watch();
      } catch (err) {
        if (signal.aborted) return;
        env.logger.warn({ err, topic }, "watch failed; subscribing again");
      }
      this.#established.delete(topic);
      const backoffMs = jittered(env.random, RESUBSCRIBE_MS, 0.5);
      await sleep(env.clock, backoffMs, { signal, background: true }).catch(() => {});
    }
  }
}

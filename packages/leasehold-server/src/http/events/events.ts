/**
 * The hints of the stores for all who follow this instance by /v1/events.
 *
 *   leases.watch ─┐                              ┌─▶ stream, at its own position
 *                 ├─▶ the last 1,000 events ─────┼─▶ stream
 *   tasks.watch  ─┘   each with the next number  └─▶ stream
 *
 * The stores are watched once, from the first stream on until a minute after the last, so that whoever
 * reconnects goes on where it was. Events are `<epoch>.<number>`; the epoch is drawn with each watch.
 *
 *   a new stream, another epoch,          ─▶ `resync` as soon as all of the stream's watches stand,
 *   a number that is not kept any more       then what comes after it
 *   a number that is kept                 ─▶ what came after it
 *   a watch breaks and stands again       ─▶ `resync` for its streams, in the place of what was missed
 *   a reader that falls behind            ─▶ its number is not kept any more: as above
 */
import type { Env, LeaseStore, Timer } from "leasehold";
import type { TaskStore } from "leasehold/internal";
import { jittered, sleep } from "leasehold/internal";
import type { EventTopic } from "leasehold/internal/wire";
import { type Followed, type Listener, Ring, Streams, UNRESTRICTED } from "./event-stream.js";

const KEPT_EVENTS = 1_000;
/** How long the stores are watched for somebody who may come back. */
const LINGER_MS = 60_000;
const RESUBSCRIBE_MS = 1_000;

export interface Watched {
  readonly env: Env;
  readonly namespace: string;
  readonly leases: Pick<LeaseStore, "watch">;
  readonly tasks: Pick<TaskStore, "watch">;
}

interface Event {
  readonly topic: EventTopic;
  readonly name: "resync" | "lease" | "task";
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

  /** An event stream that takes part from its first read on, until it is cancelled or the hub closes. */
  stream(
    topics: readonly EventTopic[],
    lastEventId: string | undefined,
    listener: Listener = UNRESTRICTED,
  ): ReadableStream {
    const join = () => this.#join()?.followedBy(topics, listener.sees) ?? null;
    return this.#streams.open(lastEventId, listener, join, () => this.#left());
  }

  /** How many are followed now. */
  get streams(): number {
    return this.#streams.size;
  }

  /** Ends all streams and the watches. */
  close(): Promise<void> {
    this.#closed = true;
    this.#stop();
    this.#streams.wake();
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

/** What was told since the stores are watched, as far as it is kept. */
class Feed {
  readonly #ring: Ring<Event>;
  readonly #onChange: () => void;
  readonly #standing = new Set<EventTopic>();
  readonly #stopping = new AbortController();
  readonly #following: Promise<unknown>;

  constructor({ env, namespace, leases, tasks }: Watched, onChange: () => void) {
    this.#ring = new Ring(env.random, KEPT_EVENTS);
    this.#onChange = onChange;
    const { signal } = this.#stopping;
    this.#following = Promise.all([
      this.#follow(env, "leases", async () => {
        for await (const event of leases.watch(namespace, { signal })) {
          if (event.type === "resync") this.#stands("leases");
          else {
            const { resource, wakes } = event;
            const data = { resource, ...(wakes !== undefined && { wakes }) };
            this.#add({ topic: "leases", name: "lease", data });
          }
        }
      }),
      this.#follow(env, "tasks", async () => {
        for await (const event of tasks.watch(namespace, { signal })) {
          if (event.type === "resync") this.#stands("tasks");
          else this.#add({ topic: "tasks", name: "task", data: { queue: event.queue } });
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

  /** Null while a `resync` must wait. */
  #after(
    position: number | null,
    topics: readonly EventTopic[],
    sees: Listener["sees"],
  ): ReturnType<Followed["after"]> {
    const { last } = this.#ring;
    const news = position === null ? null : this.#ring.after(position);
    if (!news && !topics.every((topic) => this.#standing.has(topic))) return null;
    const resync = { text: this.#ring.format(last, "resync", {}), position: last };
    if (!news) return resync;
    const texts: string[] = [];
    for (const [number, { topic, name, data }] of news) {
      if (!topics.includes(topic)) continue;
      // Who reads everything again need not be told what else there was.
      if (name === "resync") return resync;
      if (!sees("resource" in data ? data.resource : null)) continue;
      texts.push(this.#ring.format(number, name, data));
    }
    return { text: texts.join(""), position: last };
  }

  #stands(topic: EventTopic): void {
    this.#standing.add(topic);
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
        env.logger.warn({ err, topic }, "watch broke; subscribing again");
      }
      this.#standing.delete(topic);
      const pauseMs = jittered(env.random, RESUBSCRIBE_MS, 0.5);
      await sleep(env.clock, pauseMs, { signal, background: true }).catch(() => {});
    }
  }
}

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
 *
 * A stream has no queue of its own: it takes what is kept when its reader asks.
 */
import { type Env, jittered, newLeaseId, sleep, type Timer } from "../env/index.js";
import type { LeaseStore } from "../lease/index.js";
import type { EventTopic } from "../protocol/index.js";
import type { TaskStore } from "../tasks/index.js";

const KEPT_EVENTS = 1_000;
/** How long the stores are watched for somebody who may come back. */
const LINGER_MS = 60_000;
/** Proxies and clients give up on connections that are silent for longer. */
const ALIVE_MS = 15_000;
const RESUBSCRIBE_MS = 1_000;
/** So much later than its key is over a silent stream ends. */
const ASK_LISTENER_MS = 5_000;
const ALIVE = ": alive\n\n";

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
  readonly #streams = new Set<EventStream>();
  #feed: Feed | undefined;
  #stopped: Promise<void> = Promise.resolve();
  #linger: Timer | undefined;
  #closed = false;

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  /** An event stream that takes part from its first read on, until it is cancelled or the hub closes. */
  stream(
    topics: readonly EventTopic[],
    lastEventId: string | undefined,
    listener: Listener = ANYBODY,
  ): ReadableStream {
    const { clock } = this.#watched.env;
    const stream = new EventStream(clock, topics, lastEventId, listener, {
      join: () => this.#join(stream),
      leave: () => this.#leave(stream),
    });
    // Not read ahead: what nobody reads holds nothing.
    return new ReadableStream(stream, { highWaterMark: 0 });
  }

  /** How many are followed now. */
  get streams(): number {
    return this.#streams.size;
  }

  /** Ends all streams and the watches. */
  close(): Promise<void> {
    this.#closed = true;
    this.#stop();
    for (const stream of this.#streams) stream.wake();
    return this.#stopped;
  }

  /** Null when the hub is closed. */
  #join(stream: EventStream): Feed | null {
    if (this.#closed) return null;
    this.#linger?.cancel();
    this.#streams.add(stream);
    this.#feed ??= new Feed(this.#watched, () => {
      for (const each of this.#streams) each.wake();
    });
    return this.#feed;
  }

  #leave(stream: EventStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0 || this.#closed) return;
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
  readonly #epoch: string;
  readonly #onChange: () => void;
  readonly #kept: Event[] = [];
  /** The number of the last event. */
  #last = 0;
  readonly #standing = new Set<EventTopic>();
  readonly #stopping = new AbortController();
  readonly #following: Promise<unknown>;

  constructor({ env, namespace, leases, tasks }: Watched, onChange: () => void) {
    this.#epoch = newLeaseId(env.random).slice(0, 16);
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

  get stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#following;
  }

  /** The position of who has received that event last; null if nobody can have. */
  positionOf(lastEventId: string | undefined): number | null {
    const [, epoch, number] = /^([0-9a-f]{16})\.(\d{1,15})$/.exec(lastEventId ?? "") ?? [];
    return epoch === this.#epoch && Number(number) <= this.#last ? Number(number) : null;
  }

  /** What came after a position, and the next one; null while a `resync` must wait. */
  after(
    position: number | null,
    topics: readonly EventTopic[],
    sees: Listener["sees"],
  ): { readonly text: string; readonly position: number } | null {
    const last = this.#last;
    const missed = position === null ? Infinity : last - position;
    const lost = missed > this.#kept.length;
    if (lost && !topics.every((topic) => this.#standing.has(topic))) return null;
    const resync = { text: this.#format(last, "resync", {}), position: last };
    if (lost) return resync;
    const first = this.#kept.length - missed;
    const texts: string[] = [];
    for (const [index, { topic, name, data }] of this.#kept.slice(first).entries()) {
      if (!topics.includes(topic)) continue;
      // Who reads everything again need not be told what else there was.
      if (name === "resync") return resync;
      if (!sees("resource" in data ? data.resource : null)) continue;
      texts.push(this.#format(last - missed + index + 1, name, data));
    }
    return { text: texts.join(""), position: last };
  }

  #format(number: number, name: string, data: object): string {
    return `id: ${this.#epoch}.${number}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  #stands(topic: EventTopic): void {
    this.#standing.add(topic);
    this.#add({ topic, name: "resync", data: {} });
  }

  #add(event: Event): void {
    this.#kept.push(event);
    if (this.#kept.length > KEPT_EVENTS) this.#kept.shift();
    this.#last += 1;
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

interface Membership {
  readonly join: () => Feed | null;
  readonly leave: () => void;
}

/** What a reader may know, and for how long. */
export interface Listener {
  /** Whether it may learn that something of this resource, or of any task (null), has changed. */
  readonly sees: (resource: string | null) => boolean;
  /** False ends its stream. Asked again and again, so it answers at once as a rule. */
  readonly holds: () => Promise<boolean>;
}

const ANYBODY: Listener = { sees: () => true, holds: async () => true };

const encoder = new TextEncoder();

/** The source of one answer's body. */
class EventStream {
  #feed: Feed | null = null;
  #position: number | null = null;
  #left = false;
  #woken = () => {};

  constructor(
    readonly clock: Env["clock"],
    readonly topics: readonly EventTopic[],
    readonly lastEventId: string | undefined,
    readonly listener: Listener,
    readonly membership: Membership,
  ) {}

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    const text = this.#feed ? await this.#next(this.#feed) : this.#begin();
    if (this.#left) return;
    if (text === null) {
      controller.close();
      this.cancel();
    } else {
      controller.enqueue(encoder.encode(text));
    }
  }

  cancel(): void {
    this.#left = true;
    this.membership.leave();
    this.#woken();
  }

  wake(): void {
    this.#woken();
  }

  /** Something at once: what stands before the server may hold back an answer that has no body yet. */
  #begin(): string | null {
    this.#feed = this.membership.join();
    this.#position = this.#feed?.positionOf(this.lastEventId) ?? null;
    return this.#feed && ALIVE;
  }

  /** Resolves when there is something to say; null at the end. */
  async #next(feed: Feed): Promise<string | null> {
    let silentMs = 0;
    while (!feed.stopped && !this.#left && (await this.listener.holds())) {
      const next = feed.after(this.#position, this.topics, this.listener.sees);
      if (next) this.#position = next.position;
      if (next?.text) return next.text;
      if (silentMs >= ALIVE_MS) return ALIVE;
      if (!(await this.#news())) silentMs += ASK_LISTENER_MS;
    }
    return null;
  }

  /** False when there was none until the listener is to be asked again. */
  #news(): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = this.clock.timer(ASK_LISTENER_MS, () => resolve(false), { background: true });
      this.#woken = () => {
        timer.cancel();
        resolve(true);
      };
    });
  }
}

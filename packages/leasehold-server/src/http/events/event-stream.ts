/**
 * Server-sent events: a ring of recent, numbered events, and streams that read it from their own position
 * when their client reads and they are served. A stream has no queue of its own.
 */
import type { Clock, Random } from "leasehold";
import { randomHex } from "leasehold/internal";
import { FeedTurns, type Reader } from "./feed-turns.js";

/** A stream sends so much at a time, in characters, so that one that is not read takes no more. */
export const PIECE_LENGTH = 32_768;
/** Proxies and clients close connections that are silent for longer. */
const ALIVE_MS = 15_000;
/** A check reads an ageing key anew and the next one sees it, so a silent stream ends within 5 s after its key. */
const CHECK_LISTENER_MS = 1_000;
const ALIVE = ": alive\n\n";

/** The latest events, numbered in order. Clients see the id `<epoch>.<number>`. */
export class Ring<Event> {
  readonly #epoch: string;
  readonly #capacity: number;
  readonly #kept: Event[] = [];
  #last = 0;

  /** @param random draws the epoch, so that no client resumes in another ring */
  constructor(random: Random, capacity: number) {
    this.#epoch = randomHex(random, 8);
    this.#capacity = capacity;
  }

  /** The number of the last event. */
  get last(): number {
    return this.#last;
  }

  /** Number of events that are kept. */
  get kept(): number {
    return this.#kept.length;
  }

  add(event: Event): void {
    this.#kept[this.#last % this.#capacity] = event;
    this.#last += 1;
  }

  /** The position after the given event; null if it is not from this ring. */
  positionOf(lastEventId: string | undefined): number | null {
    const [, epoch, number] = /^([0-9a-f]{16})\.(\d{1,15})$/.exec(lastEventId ?? "") ?? [];
    return epoch === this.#epoch && Number(number) <= this.#last ? Number(number) : null;
  }

  /** The numbered events after a position, to be read at once; null if some of them are no longer kept. */
  after(position: number): Iterable<[number, Event]> | null {
    return this.#last - position > this.kept ? null : this.#from(position);
  }

  *#from(position: number): Generator<[number, Event]> {
    for (let before = position; before < this.#last; before += 1) {
      yield [before + 1, this.#kept[before % this.#capacity] as Event];
    }
  }

  format(number: number, name: string, data: object): string {
    return `id: ${this.#epoch}.${number}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  }
}

/** A source of events for streams. */
export interface Followed {
  readonly stopped: boolean;
  /** The position after the given event; null if it is unknown. */
  positionOf(lastEventId: string | undefined): number | null;
  /** The text after a position, and the new position; null while there is nothing to send. */
  after(position: number | null): { readonly text: string; readonly position: number } | null;
}

export interface Membership {
  /** Null once the source is closed. */
  readonly join: () => Followed | null;
  readonly leave: () => void;
}

/** The caller of a stream. */
export interface Listener {
  /** Whether it may receive events of this resource, or of tasks in general (null). */
  readonly sees: (resource: string | null) => boolean;
  /** False ends the stream. Called often, so it should usually resolve at once. */
  readonly isStillValid: () => Promise<boolean>;
  /** False ends the stream at its first read: others have joined since it was created. Default true. */
  readonly hasRoom?: () => boolean;
}

export const UNRESTRICTED: Listener = {
  sees: () => true,
  isStillValid: async () => true,
};

const encoder = new TextEncoder();

/** The source of a response's body. */
export class EventStream implements Reader {
  #feed: Followed | null = null;
  #position: number | null = null;
  #left = false;
  #mayRead = false;
  #woken = () => {};

  constructor(
    readonly clock: Clock,
    readonly lastEventId: string | undefined,
    readonly listener: Pick<Listener, "isStillValid">,
    readonly membership: Membership,
    readonly turns: FeedTurns,
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
    this.turns.leave(this);
    this.membership.leave();
    this.#woken();
  }

  grant(): void {
    this.#mayRead = true;
    this.#woken();
  }

  /** Checks the feed and the listener. */
  check(): void {
    this.#woken();
  }

  /** Sends a comment at once: a proxy may hold back a response without a body. */
  #begin(): string | null {
    this.#feed = this.membership.join();
    this.#position = this.#feed?.positionOf(this.lastEventId) ?? null;
    return this.#feed && ALIVE;
  }

  /** Resolves with the next text to send, or null at the end. */
  async #next(feed: Followed): Promise<string | null> {
    const sinceMs = this.clock.monotonic();
    if (!this.#mayRead) this.turns.ask(this);
    while (!feed.stopped && !this.#left && (await this.listener.isStillValid())) {
      const text = this.#mayRead && this.#read(feed);
      if (text) return text;
      // Events that this caller may not see do not keep its connection alive.
      if (this.clock.monotonic() - sinceMs >= ALIVE_MS) return ALIVE;
      await this.#nextTurn();
    }
    return null;
  }

  #read(feed: Followed): string {
    this.#mayRead = false;
    const next = this.turns.read(this, () => feed.after(this.#position));
    if (next) this.#position = next.position;
    if (next !== undefined && !next?.text) this.turns.askAtNews(this);
    return next?.text ?? "";
  }

  /** Resolves when it may read, or when the listener must be checked. */
  #nextTurn(): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.clock.timer(CHECK_LISTENER_MS, resolve, { background: true });
      this.#woken = () => {
        timer.cancel();
        resolve();
      };
    });
  }
}

/** A set of streams. Each joins at its first read and leaves when it is cancelled or ends. */
export class Streams {
  readonly #clock: Clock;
  readonly #turns: FeedTurns;
  readonly #open = new Set<EventStream>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#turns = new FeedTurns(clock);
  }

  get count(): number {
    return this.#open.size;
  }

  /** @param left called after a stream has left */
  open(
    lastEventId: string | undefined,
    listener: Listener,
    join: () => Followed | null,
    left: () => void = () => {},
  ): ReadableStream {
    const membership: Membership = {
      join: () => {
        const followed = listener.hasRoom?.() === false ? null : join();
        if (followed) this.#open.add(stream);
        return followed;
      },
      leave: () => {
        this.#open.delete(stream);
        left();
      },
    };
    const stream = new EventStream(this.#clock, lastEventId, listener, membership, this.#turns);
    // No reading ahead: an unread stream uses no memory.
    return new ReadableStream(stream, { highWaterMark: 0 });
  }

  /** Has the streams read what is new, a few in each turn of the event loop. */
  wake(): void {
    this.#turns.noteNews();
  }

  /** Ends the streams, without waiting for turns. Their feeds must have stopped. */
  end(): void {
    for (const stream of this.#open) stream.check();
  }
}

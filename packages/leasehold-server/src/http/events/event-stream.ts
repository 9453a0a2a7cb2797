/**
 * Server-sent events as answers: what was told of late, numbered, and streams that each take it from
 * their own position on when their reader asks. A stream has no queue of its own.
 */
import type { Clock, Random } from "leasehold";
import { newLeaseId } from "leasehold/internal";

/** Proxies and clients give up on connections that are silent for longer. */
const ALIVE_MS = 15_000;
/** So much later than its key is over a silent stream ends. */
const ASK_LISTENER_MS = 5_000;
const ALIVE = ": alive\n\n";

/** The last of what was told, each with the next number. An event is `<epoch>.<number>` to its readers. */
export class Ring<Event> {
  readonly #epoch: string;
  readonly #most: number;
  readonly #kept: Event[] = [];
  #last = 0;

  /** @param random draws the epoch, so that nobody goes on in another ring */
  constructor(random: Random, most: number) {
    this.#epoch = newLeaseId(random).slice(0, 16);
    this.#most = most;
  }

  /** The number of the last event. */
  get last(): number {
    return this.#last;
  }

  /** How many are kept. */
  get kept(): number {
    return this.#kept.length;
  }

  add(event: Event): void {
    this.#kept[this.#last % this.#most] = event;
    this.#last += 1;
  }

  /** The position of who has received that event last; null if nobody can have. */
  positionOf(lastEventId: string | undefined): number | null {
    const [, epoch, number] = /^([0-9a-f]{16})\.(\d{1,15})$/.exec(lastEventId ?? "") ?? [];
    return epoch === this.#epoch && Number(number) <= this.#last ? Number(number) : null;
  }

  /** What came after a position, each with its number; null where some of it is not kept any more. */
  after(position: number): [number, Event][] | null {
    if (this.#last - position > this.kept) return null;
    return Array.from({ length: this.#last - position }, (_, index) => {
      const before = position + index;
      return [before + 1, this.#kept[before % this.#most] as Event];
    });
  }

  format(number: number, name: string, data: object): string {
    return `id: ${this.#epoch}.${number}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  }
}

/** What a stream follows. */
export interface Followed {
  readonly stopped: boolean;
  /** The position of who has received that event last; null if nobody can have. */
  positionOf(lastEventId: string | undefined): number | null;
  /** What came after a position, and the next one; null while there is nothing to say yet. */
  after(position: number | null): { readonly text: string; readonly position: number } | null;
}

export interface Membership {
  /** Null when nobody can take part any more. */
  readonly join: () => Followed | null;
  readonly leave: () => void;
}

/** What a reader may know, and for how long. */
export interface Listener {
  /** Whether it may learn that something of this resource, or of any task (null), has changed. */
  readonly sees: (resource: string | null) => boolean;
  /** False ends its stream. Asked again and again, so it answers at once as a rule. */
  readonly holds: () => Promise<boolean>;
}

export const UNRESTRICTED: Listener = { sees: () => true, holds: async () => true };

const encoder = new TextEncoder();

/** The source of one answer's body. */
export class EventStream {
  #feed: Followed | null = null;
  #position: number | null = null;
  #left = false;
  #woken = () => {};

  constructor(
    readonly clock: Clock,
    readonly lastEventId: string | undefined,
    readonly listener: Pick<Listener, "holds">,
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
  async #next(feed: Followed): Promise<string | null> {
    const sinceMs = this.clock.monotonic();
    while (!feed.stopped && !this.#left && (await this.listener.holds())) {
      const next = feed.after(this.#position);
      if (next) this.#position = next.position;
      if (next?.text) return next.text;
      // Much may happen that is not for this reader: its line is silent all the same.
      if (this.clock.monotonic() - sinceMs >= ALIVE_MS) return ALIVE;
      await this.#news();
    }
    return null;
  }

  /** There may be some, or the listener is to be asked again. */
  #news(): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.clock.timer(ASK_LISTENER_MS, resolve, { background: true });
      this.#woken = () => {
        timer.cancel();
        resolve();
      };
    });
  }
}

/** Streams that take part from their first read on, until they are cancelled or all end. */
export class Streams {
  readonly #clock: Clock;
  readonly #open = new Set<EventStream>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How many are followed now. */
  get size(): number {
    return this.#open.size;
  }

  /** @param left called after a stream has gone */
  open(
    lastEventId: string | undefined,
    listener: Listener,
    join: () => Followed | null,
    left: () => void = () => {},
  ): ReadableStream {
    const stream = new EventStream(this.#clock, lastEventId, listener, {
      join: () => {
        const followed = join();
        if (followed) this.#open.add(stream);
        return followed;
      },
      leave: () => {
        this.#open.delete(stream);
        left();
      },
    });
    // Not read ahead: what nobody reads holds nothing.
    return new ReadableStream(stream, { highWaterMark: 0 });
  }

  wake(): void {
    for (const stream of this.#open) stream.wake();
  }
}

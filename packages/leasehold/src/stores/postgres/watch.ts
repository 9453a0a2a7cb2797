/**
 * One subscription to the database's notifications for everything in this process.
 *
 *   connect ─ LISTEN ─ resync ─ events ... ─ connection lost ─ backoff ─ connect ─ LISTEN ─ resync
 *
 * Notifications are hints: those sent while nobody listened are gone, so every (re)connection tells
 * all watchers to read again. Where a pooler gives each statement another session (PgBouncer in
 * transaction mode) LISTEN succeeds but nothing ever arrives: so that is tried out once at the
 * beginning, and such a database is polled.
 */
import {
  Backoff,
  type Env,
  eventsUntil,
  newLeaseId,
  type Resync,
  sleep,
  type Timer,
  withTimeout,
} from "../../env/index.js";
import { type Backend, CHANNEL, type Subscription } from "./connection.js";
import { storeError } from "./failures.js";

/** `[topic, namespace, name]`, such as `["lease", "default", "report"]`. */
export type Notification = readonly [
  topic: string,
  namespace: string,
  name: string,
  /** Whom a free lease is kept for. */
  wakes?: string,
];
export type ListenerEvent = Notification | "resync";

/** How long our own notification may take to arrive before we conclude that none ever does. */
const PROBE_TIMEOUT_MS = 2_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };
/** A cut network is silent: ask now and then whether the session still answers. */
const CHECK_EVERY_MS = 15_000;
const CHECK_TIMEOUT_MS = 5_000;

type Handler = (event: ListenerEvent) => void;

export class Listener {
  readonly #handlers = new Set<Handler>();
  readonly #ends = new Set<() => void>();
  readonly #closed = new AbortController();
  #subscription: Subscription | null = null;
  #check: Timer | undefined;
  #mode: "push" | "poll" = "poll";
  #onProbe: ((id: string) => void) | null = null;

  private constructor(
    readonly backend: Backend,
    readonly env: Env,
  ) {}

  /**
   * Resolves when it is known whether notifications arrive.
   * @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED
   */
  static async open(backend: Backend, env: Env): Promise<Listener> {
    const listener = new Listener(backend, env);
    if (!backend.listen) return listener;
    try {
      await listener.#connect(backend.listen);
      if (await listener.#notificationsArrive()) {
        listener.#mode = "push";
        return listener;
      }
    } catch (error) {
      await listener.close();
      throw storeError(error, false);
    }
    env.logger.info({ store: backend.name }, "notifications do not arrive: watching by polling");
    await listener.close();
    return new Listener({ ...backend, listen: null }, env);
  }

  get mode(): "push" | "poll" {
    return this.#mode;
  }

  /**
   * The first event is a resync, once the subscription stands. In poll mode it is the only one.
   * @param onEnd called when the listener closes
   * @returns unsubscribe
   */
  subscribe(handler: Handler, onEnd: () => void): () => void {
    this.#handlers.add(handler);
    this.#ends.add(onEnd);
    if (this.#closed.signal.aborted) onEnd();
    else if (this.#mode === "poll" || this.#subscription) handler("resync");
    return () => {
      this.#handlers.delete(handler);
      this.#ends.delete(onEnd);
    };
  }

  async close(): Promise<void> {
    this.#closed.abort();
    for (const end of this.#ends) end();
    await this.#disconnect();
  }

  async #connect(listen: NonNullable<Backend["listen"]>): Promise<void> {
    const subscription: Subscription = await listen(
      (payload) => this.#receive(payload),
      (error) => void this.#reconnect(listen, subscription, error),
    );
    if (this.#closed.signal.aborted) return subscription.stop();
    this.#subscription = subscription;
    this.#scheduleCheck(listen, subscription);
    this.#emit("resync");
  }

  async #disconnect(): Promise<void> {
    this.#check?.cancel();
    const subscription = this.#subscription;
    this.#subscription = null;
    await subscription?.stop().catch(() => {});
  }

  /** Each subscription is lost once, and only the current one: there is one loop at a time. */
  async #reconnect(
    listen: NonNullable<Backend["listen"]>,
    lost: Subscription,
    error: unknown,
  ): Promise<void> {
    if (this.#subscription !== lost) return;
    const { clock, random, logger } = this.env;
    logger.warn(
      { err: error, store: this.backend.name },
      "the connection for notifications is lost",
    );
    await this.#disconnect();
    const { signal } = this.#closed;
    const backoff = new Backoff(random, RECONNECT);
    while (!signal.aborted) {
      try {
        await sleep(clock, backoff.nextMs(), { signal, background: true });
        return await this.#connect(listen);
      } catch (error) {
        logger.debug(
          { err: error, store: this.backend.name },
          "no connection for notifications yet",
        );
      }
    }
  }

  #scheduleCheck(listen: NonNullable<Backend["listen"]>, subscription: Subscription): void {
    const { clock } = this.env;
    const check = subscription.check?.bind(subscription);
    if (!check) return;
    const lost = (error: unknown) => void this.#reconnect(listen, subscription, error);
    this.#check = clock.timer(
      CHECK_EVERY_MS,
      () => {
        const silence = new Error(`no answer within ${CHECK_TIMEOUT_MS} ms`);
        this.#check = clock.timer(CHECK_TIMEOUT_MS, () => lost(silence), { background: true });
        check().then(() => {
          if (this.#subscription !== subscription) return;
          this.#check?.cancel();
          this.#scheduleCheck(listen, subscription);
        }, lost);
      },
      { background: true },
    );
  }

  /** Sends a notification to ourselves over another connection. */
  async #notificationsArrive(): Promise<boolean> {
    const { clock, random } = this.env;
    const id = newLeaseId(random);
    const arrived = new Promise<boolean>((resolve, reject) => {
      this.#onProbe = (received) => {
        if (received === id) resolve(true);
      };
      this.backend.general
        .query("SELECT pg_notify($1, $2)::text", [CHANNEL, JSON.stringify(["probe", "", id])])
        .catch(reject);
    });
    try {
      return await withTimeout(clock, PROBE_TIMEOUT_MS, arrived, () => false);
    } finally {
      this.#onProbe = null;
    }
  }

  #receive(payload: string): void {
    const event = parse(payload);
    if (!event) return;
    if (event[0] === "probe") this.#onProbe?.(event[2]);
    else this.#emit(event);
  }

  #emit(event: ListenerEvent): void {
    for (const handler of this.#handlers) handler(event);
  }
}

/** Anybody may send to the channel: what is not ours is ignored. */
function parse(payload: string): Notification | null {
  try {
    const value: unknown = JSON.parse(payload);
    const ours =
      Array.isArray(value) &&
      (value.length === 3 || value.length === 4) &&
      value.every((part) => typeof part === "string");
    return ours ? (value as unknown as Notification) : null;
  } catch {
    return null;
  }
}

/**
 * The listener's events for one watcher, until one of the signals aborts or the listener closes.
 * @param pick what a notification means to this watcher; null: nothing
 */
export function watchEvents<Event>(
  listener: Listener,
  pick: (notification: Notification) => Event | null,
  signals: readonly AbortSignal[],
): AsyncGenerator<Event | Resync, void, undefined> {
  return eventsUntil<Event>(signals, (queue) => {
    const onEvent = (notification: ListenerEvent) => {
      if (notification === "resync") return queue.resync();
      const event = pick(notification);
      if (event !== null) queue.push(event);
    };
    return listener.subscribe(onEvent, () => queue.end());
  });
}

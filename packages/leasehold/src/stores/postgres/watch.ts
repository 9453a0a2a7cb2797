/**
 * One subscription to the database's notifications, shared by all watchers of a store.
 *
 *   connect ─ LISTEN ─ resync ─ events ... ─ connection lost ─ backoff ─ connect ─ LISTEN ─ resync
 *
 * Notifications may be lost: PostgreSQL drops those sent while no session listens. So every
 * (re)connection sends a resync to all watchers. A session also ends when a call learns that its server has become
 * read-only. Behind a pooler that gives each statement another
 * session (PgBouncer in transaction mode), LISTEN succeeds but no notification arrives. The store tests
 * that once at the start, and polls such a database.
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
import type { Backend, Subscription } from "./connection.js";
import { connectError } from "./failures.js";

/** `[topic, namespace, name]`, such as `["lease", "default", "report"]`. */
export type Notification = readonly [
  topic: string,
  namespace: string,
  name: string,
  /** Grant id of the waiter that a freed lease is reserved for; of a task that becomes due, in how many milliseconds. */
  detail?: string,
];
export type ListenerEvent = Notification | "resync";

/** How long the store waits for its own test notification before it concludes that none arrive. */
const PROBE_TIMEOUT_MS = 2_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };
/** A network partition is silent, so the listener checks the session regularly. */
const CHECK_EVERY_MS = 15_000;
const CHECK_TIMEOUT_MS = 5_000;

type Handler = (event: ListenerEvent) => void;

export class Listener {
  readonly #handlers = new Set<Handler>();
  readonly #ends = new Set<() => void>();
  readonly #closed = new AbortController();
  readonly #backoff: Backoff;
  #subscribedMs = 0;
  #subscription: Subscription | null = null;
  #check: Timer | undefined;
  #mode: "push" | "poll" = "poll";
  #onProbe: ((id: string) => void) | null = null;

  private constructor(
    readonly backend: Backend,
    readonly env: Env,
  ) {
    this.#backoff = new Backoff(env.random, RECONNECT);
  }

  /**
   * Resolves once the store knows whether notifications arrive.
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
      throw connectError(error);
    }
    env.logger.info({ store: backend.name }, "notifications do not arrive; polling instead");
    await listener.close();
    return new Listener({ ...backend, listen: null }, env);
  }

  get mode(): "push" | "poll" {
    return this.#mode;
  }

  /**
   * Subscribes a watcher. Its first event is a resync, once the subscription is active. In poll mode
   * there are no others.
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
      this.backend.schema.channel,
      (payload) => this.#receive(payload),
      (error) => void this.#reconnect(listen, subscription, error),
    );
    if (this.#closed.signal.aborted) return subscription.stop();
    this.#subscription = subscription;
    this.#subscribedMs = this.env.clock.monotonic();
    this.#scheduleCheck(listen, subscription);
    this.#emit("resync");
  }

  async #disconnect(): Promise<void> {
    this.#check?.cancel();
    const subscription = this.#subscription;
    this.#subscription = null;
    await subscription?.stop().catch(() => {});
  }

  /** A subscription is lost only once, and there is one at a time, so there is one reconnect loop. */
  async #reconnect(
    listen: NonNullable<Backend["listen"]>,
    lost: Subscription,
    error: unknown,
  ): Promise<void> {
    if (this.#subscription !== lost) return;
    const { clock, logger } = this.env;
    logger.warn({ err: error, store: this.backend.name }, "the notification connection was lost");
    await this.#disconnect();
    const { signal } = this.#closed;
    // Calls may find again and again that the server is read-only.
    if (clock.monotonic() - this.#subscribedMs >= RECONNECT.longestMs) this.#backoff.reset();
    while (!signal.aborted) {
      try {
        await sleep(clock, this.#backoff.nextMs(), { signal, background: true });
        return await this.#connect(listen);
      } catch (error) {
        logger.debug(
          { err: error, store: this.backend.name },
          "the notification connection is not open yet",
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
        const silence = new Error(`no response within ${CHECK_TIMEOUT_MS} ms`);
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

  /** Sends a test notification over another connection. */
  async #notificationsArrive(): Promise<boolean> {
    const { clock, random } = this.env;
    const { channel } = this.backend.schema;
    const id = newLeaseId(random);
    const arrived = new Promise<boolean>((resolve, reject) => {
      this.#onProbe = (received) => {
        if (received === id) resolve(true);
      };
      this.backend.general
        .query("SELECT pg_notify($1, $2)::text", [channel, JSON.stringify(["probe", "", id])])
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

/** Any client may send to the channel: malformed messages are ignored. */
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
 * Yields the listener's events for one watcher, until a signal aborts or the listener closes.
 * @param pick maps a notification to an event of this watcher; null: none
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

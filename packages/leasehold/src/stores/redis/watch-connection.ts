/**
 * One connection that serves all watches of a store.
 *
 *   open ─ SUBSCRIBE ─ resync ─ notifications ... ─ lost ─ backoff ─ open ─ SUBSCRIBE ─ resync ─ ...
 *
 * Redis drops messages that are published while no client is subscribed. So every (re)connection sends
 * a resync to all watchers. In a cluster a message reaches every node.
 *
 * A server that has become a replica keeps its connections, and what is published at the new primary may not reach it. So
 * the connection is lost as soon as a call learns of that, and a new one subscribes at a primary only.
 */
import { Backoff, sleep, type Timer } from "../../env/index.js";
import { StoreUnavailableError } from "../../lease/index.js";
import type { Connection } from "./connection.js";
import type { RedisConnection } from "./connection-driver.js";
import type { Servers } from "./connection-servers.js";
import { infoIn, isReplica } from "./diagnose.js";

/** A watcher of one channel. */
export interface Watcher {
  resync(): void;
  notify(message: string): void;
}

const CALL_TIMEOUT_MS = 5_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };
/** A network partition is silent, so the connection pings the server regularly. */
const CHECK_EVERY_MS = 15_000;

export class Notifications {
  readonly #servers: Servers;
  readonly #connection: Connection;
  readonly #channels = new Map<string, Set<Watcher>>();
  readonly #closed = new AbortController();
  readonly #backoff: Backoff;
  readonly #stopListening: () => void;
  #client: RedisConnection | undefined;
  #openedMs = 0;
  #check: Timer | undefined;

  constructor(servers: Servers) {
    this.#servers = servers;
    this.#backoff = new Backoff(servers.env.random, RECONNECT);
    this.#stopListening = servers.onLeft(() => this.#client && this.#lost(this.#client));
    this.#connection = servers.separate(`${servers.driver.name} (notifications)`, (client) => {
      client.on("message", (channel: string, message: string) => {
        for (const watcher of this.#channels.get(channel) ?? []) watcher.notify(message);
      });
      client.on("end", () => this.#lost(client));
    });
  }

  /** Resolves when the connection is ready to subscribe. Rejects with a LeaseholdError. */
  async open(probe: string): Promise<void> {
    await this.#open(probe);
  }

  /**
   * Subscribes a watcher. Its first event is a resync, once the subscription is active. Returns the
   * unsubscribe function.
   */
  watch(channel: string, watcher: Watcher): () => void {
    let watchers = this.#channels.get(channel);
    if (!watchers) {
      watchers = new Set();
      this.#channels.set(channel, watchers);
    }
    watchers.add(watcher);
    const client = this.#client;
    if (client) {
      this.#ask(client, () => client.subscribe(channel)).then(
        () => this.#client === client && watchers.has(watcher) && watcher.resync(),
        () => this.#lost(client),
      );
    }
    return () => {
      watchers.delete(watcher);
      if (watchers.size > 0 || this.#channels.get(channel) !== watchers) return;
      this.#channels.delete(channel);
      const client = this.#client;
      if (client) this.#ask(client, () => client.unsubscribe(channel)).catch(() => {});
    };
  }

  close(): void {
    this.#closed.abort();
    this.#stopListening();
    this.#check?.cancel();
    this.#client = undefined;
    this.#connection.close();
  }

  async #open(probe?: string): Promise<void> {
    const client = await this.#connection.open(this.#deadline());
    await this.#checkPrimary(client);
    if (probe !== undefined) {
      await this.#ask(client, () => client.subscribe(probe));
      await this.#ask(client, () => client.unsubscribe(probe));
    }
    for (;;) {
      // More watchers may arrive before the server replies.
      const channels = [...this.#channels.keys()];
      if (channels.length > 0) await this.#ask(client, () => client.subscribe(...channels));
      if ([...this.#channels.keys()].every((channel) => channels.includes(channel))) break;
    }
    if (this.#closed.signal.aborted) return;
    this.#client = client;
    this.#openedMs = this.#servers.env.clock.monotonic();
    this.#scheduleCheck(client);
    for (const watchers of this.#channels.values()) for (const each of watchers) each.resync();
  }

  /** A connection is lost only once. */
  #lost(client: RedisConnection): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    this.#check?.cancel();
    this.#connection.drop(client);
    if (!this.#closed.signal.aborted) void this.#reopen();
  }

  async #reopen(): Promise<void> {
    const { clock, logger } = this.#servers.env;
    const { signal } = this.#closed;
    const store = this.#connection.name;
    logger.warn({ store }, "the notification connection was lost");
    // Calls may find again and again that the server takes no writes.
    if (clock.monotonic() - this.#openedMs >= RECONNECT.longestMs) this.#backoff.reset();
    while (!signal.aborted) {
      try {
        await sleep(clock, this.#backoff.nextMs(), { signal, background: true });
        return await this.#open();
      } catch (error) {
        logger.debug({ err: error, store }, "the notification connection is not open yet");
      }
    }
  }

  /** Every node of a cluster gets all messages. */
  async #checkPrimary(client: RedisConnection): Promise<void> {
    if (this.#servers.isCluster) return;
    const info = await this.#ask(client, () => client.call("info", "replication"));
    if (!isReplica(infoIn(info))) return;
    this.#connection.drop(client);
    const message = `${this.#connection.name}: the server is a replica`;
    throw new StoreUnavailableError(message, { outcome: "none" });
  }

  #scheduleCheck(client: RedisConnection): void {
    this.#check = this.#servers.env.clock.timer(
      CHECK_EVERY_MS,
      () => {
        this.#ask(client, () => client.call("ping")).then(
          () => this.#client === client && this.#scheduleCheck(client),
          () => this.#lost(client),
        );
      },
      { background: true },
    );
  }

  #ask(client: RedisConnection, command: () => Promise<unknown>): Promise<unknown> {
    return this.#connection.send(client, this.#deadline(), command);
  }

  #deadline(): number {
    return this.#servers.env.clock.monotonic() + CALL_TIMEOUT_MS;
  }
}

/**
 * One connection on which all watches of a store listen.
 *
 *   open ─ SUBSCRIBE ─ resync ─ hints ... ─ lost ─ pause ─ open ─ SUBSCRIBE ─ resync ─ ...
 *
 * What is published while nobody listens is gone, so that every (re)connection tells all watchers to
 * read again. In a cluster a message reaches every node, whichever it was published on.
 */
import { Backoff, sleep, type Timer } from "../../env/index.js";
import type { Connection } from "./connection.js";
import type { RedisConnection } from "./connection-driver.js";
import type { Servers } from "./connection-servers.js";
import { storeError } from "./failures.js";

/** One who watches a channel. */
export interface Watcher {
  resync(): void;
  hint(message: string): void;
}

const CALL_TIMEOUT_MS = 5_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };
/** A cut network is silent: ask now and then whether the other side still answers. */
const CHECK_EVERY_MS = 15_000;

export class Hints {
  readonly #servers: Servers;
  readonly #connection: Connection;
  readonly #channels = new Map<string, Set<Watcher>>();
  readonly #closed = new AbortController();
  #client: RedisConnection | undefined;
  #check: Timer | undefined;

  constructor(servers: Servers) {
    this.#servers = servers;
    this.#connection = servers.separate(`${servers.driver.name} (notifications)`, (client) => {
      client.on("message", (channel: string, message: string) => {
        for (const watcher of this.#channels.get(channel) ?? []) watcher.hint(message);
      });
      client.on("end", () => this.#lost(client));
    });
  }

  /** Resolves when the connection stands and may listen. Rejects with a LeaseholdError. */
  async open(probe: string): Promise<void> {
    await this.#open(probe);
  }

  /** Its first event is a resync, once it stands. Returns what ends it. */
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
    this.#check?.cancel();
    this.#client = undefined;
    this.#connection.close();
  }

  async #open(probe?: string): Promise<void> {
    const client = await this.#connection.open(this.#deadline());
    if (probe !== undefined) {
      await this.#ask(client, () => client.subscribe(probe));
      await this.#ask(client, () => client.unsubscribe(probe));
    }
    for (;;) {
      // Others may come while the server answers.
      const channels = [...this.#channels.keys()];
      if (channels.length > 0) await this.#ask(client, () => client.subscribe(...channels));
      if ([...this.#channels.keys()].every((channel) => channels.includes(channel))) break;
    }
    if (this.#closed.signal.aborted) return;
    this.#client = client;
    this.#scheduleCheck(client);
    for (const watchers of this.#channels.values()) for (const each of watchers) each.resync();
  }

  /** Each connection is lost once. */
  #lost(client: RedisConnection): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    this.#check?.cancel();
    this.#connection.drop(client);
    if (!this.#closed.signal.aborted) void this.#reopen();
  }

  async #reopen(): Promise<void> {
    const { clock, random, logger } = this.#servers.env;
    const { signal } = this.#closed;
    const store = this.#connection.name;
    logger.warn({ store }, "the connection for notifications is lost");
    const backoff = new Backoff(random, RECONNECT);
    while (!signal.aborted) {
      try {
        await sleep(clock, backoff.nextMs(), { signal, background: true });
        return await this.#open();
      } catch (error) {
        logger.debug({ err: error, store }, "no connection for notifications yet");
      }
    }
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

  async #ask(client: RedisConnection, command: () => Promise<unknown>): Promise<void> {
    await this.#connection.send(client, this.#deadline(), command).catch((error) => {
      throw storeError(error, true);
    });
  }

  #deadline(): number {
    return this.#servers.env.clock.monotonic() + CALL_TIMEOUT_MS;
  }
}

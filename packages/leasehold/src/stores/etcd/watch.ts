/**
 * Notifications from etcd's watch: one stream per namespace, shared by its watchers. The deletion of a
 * lock key frees a resource: a release, a revocation, an expired engine lease or session, the end of
 * `etcdctl lock`. Renewals put keys, which the watch filters out.
 *
 *   connect ──▶ created ──▶ deletions ──▶ broken, or silent for 30 s ──▶ backoff ──▶ connect, from
 *      │           └── the first, or after a gap: resync                    ▲        the next revision
 *      ├── no connection, no leader ────────────────────────────────────────┘
 *      └── compacted, or the revision went back (a restored backup): from now on, with a resync
 */

import { Backoff, type EventQueue, eventsUntil, grantIdOf, sleep } from "../../env/index.js";
import type { WatchEvent } from "../../lease/index.js";
import type { EtcdClient } from "./connection.js";
import { WATCH_NO_PUTS, type WatchMessage, type WatchRequest } from "./connection-api.js";
import { CallFailure, saidFailure, storeError } from "./failures.js";
import { locksRange, ownerOfBell, resourceOfLock } from "./keys.js";

type Deletion = NonNullable<WatchMessage["events"]>[number];

const SILENCE_MS = 30_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };

export class Watches {
  readonly #client: EtcdClient;
  readonly #prefix: string;
  readonly #streams = new Map<string, Stream>();

  constructor(client: EtcdClient, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
  }

  /**
   * Yields events until the signal aborts or the client closes.
   * @throws CLOSED; STORE_MISCONFIGURED if etcd rejects the watch permanently
   */
  async *follow(namespace: string, signal: AbortSignal): AsyncGenerator<WatchEvent, void, void> {
    this.#client.checkOpen();
    if (signal.aborted) return;
    let stream = this.#streams.get(namespace);
    if (!stream) {
      const made = new Stream(this.#client, this.#prefix, namespace, () => {
        if (this.#streams.get(namespace) === made) this.#streams.delete(namespace);
      });
      stream = made;
      this.#streams.set(namespace, stream);
    }
    const followed = stream;
    yield* eventsUntil<WatchEvent>([signal], (reader) => {
      followed.add(reader);
      return () => followed.remove(reader);
    });
  }

  close(): void {
    for (const stream of this.#streams.values()) stream.end();
  }
}

/** The stream of one namespace, from its first watcher to its last. */
class Stream {
  readonly #readers = new Set<EventQueue<WatchEvent>>();
  readonly #ending = new AbortController();
  /** Everything up to this revision is known; null if the next stream starts from the current one. */
  #revision: number | null = null;
  #created = false;

  constructor(
    readonly client: EtcdClient,
    readonly prefix: string,
    readonly namespace: string,
    /** Called when the last watcher has left. */
    readonly ended: () => void,
  ) {
    void this.#run().catch((error) => this.end(storeError(error)));
  }

  add(reader: EventQueue<WatchEvent>): void {
    this.#readers.add(reader);
    if (this.#created) reader.resync();
  }

  remove(reader: EventQueue<WatchEvent>): void {
    this.#readers.delete(reader);
    if (this.#readers.size === 0) this.end();
  }

  end(error?: Error): void {
    this.ended();
    this.#ending.abort();
    for (const reader of this.#readers) reader.end(error);
  }

  async #run(): Promise<void> {
    const { clock, logger, random } = this.client.connection.env;
    const { signal } = this.#ending;
    const backoff = new Backoff(random, RECONNECT);
    while (!signal.aborted) {
      const startMs = clock.monotonic();
      try {
        await this.#listen();
      } catch (error) {
        if (!(error instanceof CallFailure) || !error.error.retryable) throw error;
        logger.debug({ err: error.error }, "the etcd watch broke; reconnecting");
      }
      if (signal.aborted) return;
      // A connection that lasted shows that the network works.
      if (clock.monotonic() - startMs >= RECONNECT.longestMs) backoff.reset();
      await sleep(clock, backoff.nextMs(), { signal }).catch(() => {});
    }
  }

  async #listen(): Promise<void> {
    const { start, end } = locksRange(this.prefix, this.namespace);
    const from = this.#revision;
    const body: WatchRequest = {
      create_request: {
        key: start,
        range_end: end,
        filters: [WATCH_NO_PUTS],
        ...(from !== null && { start_revision: String(from + 1) }),
      },
    };
    const options = { signal: this.#ending.signal, silenceMs: SILENCE_MS };
    for await (const result of this.client.watch(body, options)) {
      const revision = Number(result.header.revision);
      if (result.canceled || (from !== null && revision < from)) {
        this.#revision = null;
        const { cancel_reason: why = "", compact_revision: compacted = "0" } = result;
        if (result.canceled && compacted === "0") throw saidFailure(why);
        return;
      }
      if (result.created) {
        this.#created = true;
        if (from === null) {
          this.#revision = revision;
          for (const reader of this.#readers) reader.resync();
        }
      }
      const { events = [] } = result;
      const last = events.at(-1);
      // Not that of the header: events up to it may still follow, in the messages of a backlog.
      if (last) this.#revision = Number(last.kv.mod_revision);
      this.#onDeletions(events);
    }
  }

  /** All events of one revision arrive in one message. */
  #onDeletions(events: readonly Deletion[]): void {
    const { prefix, namespace } = this;
    const rung = new Set<string>();
    const freed: { readonly resource: string; readonly revision: string }[] = [];
    for (const { type, kv } of events) {
      if (type !== "DELETE") continue;
      const [key, revision] = [kv.key, kv.mod_revision];
      const bell = ownerOfBell(prefix, namespace, key);
      const resource = resourceOfLock(prefix, namespace, key);
      if (resource !== null) freed.push({ resource, revision });
      if (!bell) continue;
      rung.add(`${revision} ${bell.resource}`);
      this.#notify({
        type: "changed",
        namespace,
        resource: bell.resource,
        wakes: grantIdOf(bell.leaseId),
      });
    }
    for (const { resource, revision } of freed) {
      if (!rung.has(`${revision} ${resource}`))
        this.#notify({ type: "changed", namespace, resource });
    }
  }

  #notify(event: WatchEvent): void {
    for (const reader of this.#readers) reader.push(event);
  }
}

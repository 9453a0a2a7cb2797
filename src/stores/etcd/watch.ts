/**
 * Hints from etcd's watch: one stream for all who follow a namespace, while anybody does. What frees a
 * resource is the deletion of a lock key: a release, a revocation, an engine lease or a session that
 * ended, `etcdctl lock` that is done. Renewals put keys, which are not asked for.
 *
 *   connect ──▶ created ──▶ deletions ──▶ broken, or silent for 30 s ──▶ backoff ──▶ connect, from
 *      │           └── the first, or after a gap: resync                    ▲        the next revision
 *      ├── no connection, no leader ────────────────────────────────────────┘
 *      └── compacted, or the revision went back (a restored backup): from now on, with a resync
 */
import { jittered, sleep } from "../../env/index.js";
import type { WatchEvent } from "../../lease/index.js";
import type { WatchMessage } from "./api.js";
import type { EtcdClient } from "./client.js";
import { CallFailure, saidFailure, storeError } from "./failures.js";
import { fromBase64, locksRange, ownerOfBell, resourceOfLock, toBase64 } from "./keys.js";

type Deletion = NonNullable<NonNullable<WatchMessage["result"]>["events"]>[number];

const SILENCE_MS = 30_000;
const FIRST_BACKOFF_MS = 100;
const LONGEST_BACKOFF_MS = 5_000;
/** So many unread hints say no more than "read everything again". */
const LONGEST_BACKLOG = 1_000;

export class Watches {
  readonly #client: EtcdClient;
  readonly #prefix: string;
  readonly #streams = new Map<string, Stream>();

  constructor(client: EtcdClient, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
  }

  /**
   * Until the signal aborts or the client closes.
   * @throws CLOSED, STORE_MISCONFIGURED where etcd refuses the watch for good
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
    const reader = new Reader();
    const end = () => reader.end();
    signal.addEventListener("abort", end, { once: true });
    stream.add(reader);
    try {
      yield* reader.read();
    } finally {
      signal.removeEventListener("abort", end);
      stream.remove(reader);
    }
  }

  close(): void {
    for (const stream of this.#streams.values()) stream.end();
  }
}

/** The events of one follower. */
class Reader {
  #events: WatchEvent[] = [];
  #over = false;
  #error: Error | undefined;
  #wake = () => {};

  push(event: WatchEvent): void {
    const all = event.type === "resync" || this.#events.length === LONGEST_BACKLOG;
    if (all) this.#events = [{ type: "resync" }];
    else this.#events.push(event);
    this.#wake();
  }

  /** What has not been read is dropped. */
  end(error?: Error): void {
    this.#over = true;
    this.#error = error;
    this.#wake();
  }

  async *read(): AsyncGenerator<WatchEvent, void, void> {
    while (!this.#over) {
      const event = this.#events.shift();
      if (event) yield event;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
    if (this.#error) throw this.#error;
  }
}

/** Of one namespace, from its first follower to its last. */
class Stream {
  readonly #readers = new Set<Reader>();
  readonly #ending = new AbortController();
  /** Of the last message; null where the next events are not to follow it. */
  #revision: number | null = null;
  #stands = false;

  constructor(
    readonly client: EtcdClient,
    readonly prefix: string,
    readonly namespace: string,
    /** Nobody follows it any more. */
    readonly ended: () => void,
  ) {
    void this.#run().catch((error) => this.end(storeError(error)));
  }

  add(reader: Reader): void {
    this.#readers.add(reader);
    if (this.#stands) reader.push({ type: "resync" });
  }

  remove(reader: Reader): void {
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
    let failures = 0;
    while (!signal.aborted) {
      const startMs = clock.monotonic();
      try {
        await this.#listen();
      } catch (error) {
        if (!(error instanceof CallFailure) || !error.error.retryable) throw error;
        logger.debug({ err: error.error }, "the watch of etcd broke; connecting again");
      }
      if (signal.aborted) return;
      // One that held for a while says that the way is good.
      if (clock.monotonic() - startMs >= LONGEST_BACKOFF_MS) failures = 0;
      const backoffMs = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** failures);
      failures += 1;
      await sleep(clock, jittered(random, backoffMs, 0.5), { signal }).catch(() => {});
    }
  }

  async #listen(): Promise<void> {
    const { start, end } = locksRange(this.prefix, this.namespace);
    const from = this.#revision;
    const body = {
      create_request: {
        ...{ key: toBase64(start), range_end: toBase64(end), filters: ["NOPUT"] },
        ...(from !== null && { start_revision: String(from + 1) }),
      },
    };
    const options = { signal: this.#ending.signal, silenceMs: SILENCE_MS };
    for await (const line of this.client.stream("/v3/watch", body, options)) {
      const { result, error } = JSON.parse(line) as WatchMessage;
      if (error || !result) throw saidFailure(error ?? {});
      const revision = Number(result.header.revision);
      if (result.canceled || (from !== null && revision < from)) {
        this.#revision = null;
        const { cancel_reason: why = "", compact_revision: compacted = "0" } = result;
        if (result.canceled && compacted === "0") throw saidFailure({ message: why });
        return;
      }
      if (result.created) {
        this.#stands = true;
        if (from === null) this.#tell({ type: "resync" });
      }
      this.#revision = revision;
      this.#hear(result.events ?? []);
    }
  }

  /** Events of one revision come in one message. */
  #hear(events: readonly Deletion[]): void {
    const { prefix, namespace } = this;
    const rung = new Set<string>();
    const freed: { readonly resource: string; readonly revision: string }[] = [];
    for (const { type, kv } of events) {
      if (type !== "DELETE") continue;
      const [key, revision] = [fromBase64(kv.key), kv.mod_revision];
      const bell = ownerOfBell(prefix, namespace, key);
      const resource = resourceOfLock(prefix, namespace, key);
      if (resource !== null) freed.push({ resource, revision });
      if (!bell) continue;
      rung.add(`${revision} ${bell.resource}`);
      this.#tell({ type: "changed", namespace, resource: bell.resource, wakes: bell.grantId });
    }
    for (const { resource, revision } of freed) {
      if (!rung.has(`${revision} ${resource}`))
        this.#tell({ type: "changed", namespace, resource });
    }
  }

  #tell(event: WatchEvent): void {
    for (const reader of this.#readers) reader.push(event);
  }
}

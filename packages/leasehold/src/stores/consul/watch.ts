/**
 * Notifications for the waiters of this client. A client that frees a resource puts a key for the head of its
 * queue into the mailbox of that waiter's client, which follows it by a blocking query:
 *
 *   mailbox made ─▶ query from the index ─▶ new keys: changed ──┐
 *        ▲               ▲  └── answered late, or failed: backoff│
 *        │               └───────────────────────────────────────┘
 *        └── the session has ended, or the index went back (a restored snapshot): resync
 *
 * So a release costs each waiting client nothing but the first one. Queries of all locks would return every lock
 * at each change.
 */

import { Backoff, type EventQueue, eventsUntil, sleep } from "../../env/index.js";
import type { WatchEvent } from "../../lease/index.js";
import { asStoreError } from "../../lease/index.js";
import type { ConsulClient } from "./connection.js";
import { type Pair, pairOf, transactionOf } from "./connection-api.js";
import type { Sessions } from "./connection-session.js";
import { mailboxOf } from "./keys.js";
import type { Bell } from "./wait-queue.js";

const WAIT_SECONDS = 30;
/** Consul adds up to a sixteenth to the wait. */
const ANSWERED_MS = WAIT_SECONDS * 1_000 * (17 / 16) + 5_000;
const RECONNECT = { firstMs: 100, longestMs: 5_000 };

export class Watches {
  readonly #client: ConsulClient;
  readonly #sessions: Sessions;
  readonly #readers = new Map<string, Set<EventQueue<WatchEvent>>>();
  /** Ends the query when the last reader has left. */
  #following: AbortController | null = null;
  #isEstablished = false;

  constructor(client: ConsulClient, sessions: Sessions) {
    this.#client = client;
    this.#sessions = sessions;
  }

  get isFollowed(): boolean {
    return this.#following !== null;
  }

  /**
   * Yields events until the signal aborts or the client closes.
   * @throws CLOSED; STORE_MISCONFIGURED if Consul rejects the query permanently
   */
  async *follow(namespace: string, signal: AbortSignal): AsyncGenerator<WatchEvent, void, void> {
    this.#client.checkOpen();
    yield* eventsUntil<WatchEvent>([signal], (reader) => {
      const readers = this.#readers.get(namespace) ?? new Set();
      this.#readers.set(namespace, readers.add(reader));
      if (this.#isEstablished) reader.resync();
      if (this.#following === null) this.#start();
      return () => {
        readers.delete(reader);
        if (readers.size === 0 && this.#readers.get(namespace) === readers) {
          this.#readers.delete(namespace);
        }
        if (this.#readers.size === 0) this.#stop();
      };
    });
  }

  close(error?: Error): void {
    this.#stop();
    for (const reader of this.#all()) reader.end(error);
  }

  #start(): void {
    const following = new AbortController();
    this.#following = following;
    void this.#run(following.signal).catch((error) => {
      if (this.#following === following) this.close(asStoreError(error, "maybe"));
    });
  }

  #stop(): void {
    this.#following?.abort();
    this.#following = null;
    this.#isEstablished = false;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, logger, random } = this.#client.connection.env;
    const backoff = new Backoff(random, RECONNECT);
    let mailbox: Mailbox | null = null;
    while (!signal.aborted) {
      try {
        mailbox ??= await this.#open(signal);
        if (mailbox && !(await this.#next(mailbox, signal))) mailbox = null;
        if (mailbox) backoff.reset();
        else await sleep(clock, backoff.nextMs(), { signal }).catch(() => {});
      } catch (error) {
        if (signal.aborted) return;
        const known = asStoreError(error, "maybe");
        if (!known.retryable) throw known;
        logger.debug({ err: known }, "following Consul failed; trying again");
        await sleep(clock, backoff.nextMs(), { signal }).catch(() => {});
      }
    }
  }

  /** A mailbox is never empty, so changes of other keys do not answer the query. @throws LeaseholdError */
  async makeMailbox(session: string, deadlineMs: number): Promise<string> {
    const folder = mailboxOf(this.#client.connection.prefix, session);
    const anchor = { verb: "lock", key: folder, value: "", session } as const;
    const { failed } = await this.#client.transaction(transactionOf([anchor]), deadlineMs);
    if (failed.length > 0) this.#sessions.lost(session);
    return folder;
  }

  async #open(signal: AbortSignal): Promise<Mailbox | null> {
    const session = await this.#sessions.take(0, this.#client.deadline());
    const folder = await this.makeMailbox(session, this.#client.deadline());
    const mailbox = { session, folder, index: 0 };
    if (!(await this.#next(mailbox, signal)) || signal.aborted) return null;
    this.#isEstablished = true;
    for (const reader of this.#all()) reader.resync();
    return mailbox;
  }

  /** @returns false if the mailbox is gone, or its index has gone back: make it anew */
  async #next(mailbox: Mailbox, signal: AbortSignal): Promise<boolean> {
    const { index } = mailbox;
    const waits = index > 0 && { index: String(index), wait: `${WAIT_SECONDS}s` };
    const answer = await this.#client.call({
      method: "GET",
      path: `kv/${encodeKey(mailbox.folder)}`,
      query: { recurse: "", ...waits },
      accepts: [404],
      deadlineMs: this.#client.deadline(index > 0 ? ANSWERED_MS : undefined),
      repeatable: true,
      signal,
    });
    if (answer.status === 404) {
      this.#sessions.lost(mailbox.session);
      return false;
    }
    if (answer.index < index) return false;
    mailbox.index = Math.max(1, answer.index);
    if (index === 0) return true;
    for (const pair of JSON.parse(answer.text) as readonly Pair[]) {
      if (pair.ModifyIndex > index) this.#notify(pairOf(pair));
    }
    return true;
  }

  #notify({ Value }: Pair): void {
    if (!Value) return;
    const { namespace, resource, wakes } = JSON.parse(Value) as Bell;
    for (const reader of this.#readers.get(namespace) ?? []) {
      reader.push({ type: "changed", namespace, resource, wakes });
    }
  }

  #all(): EventQueue<WatchEvent>[] {
    return [...this.#readers.values()].flatMap((readers) => [...readers]);
  }
}

interface Mailbox {
  readonly session: string;
  readonly folder: string;
  index: number;
}

/** Of a path, whose segments `fetch` would otherwise resolve if they are dots. */
function encodeKey(key: string): string {
  return key.split("/").map(encodeURIComponent).join("/");
}

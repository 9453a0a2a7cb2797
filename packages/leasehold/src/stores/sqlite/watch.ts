/**
 * Notices of releases: this process looks whether another connection has written to the file, and reads what is new.
 *
 *   a release that wakes a waiter ──▶ a row in leasehold_notice ──▶ data_version changes ──▶ read by every process that watches
 */
import { type EventQueue, eventsUntil, type Timer } from "../../env/index.js";
import type { WatchEvent } from "../../lease/index.js";
import type { SqliteFile } from "./connection.js";

/** A look costs 6 us, and a waiter of another process is woken after half of this time. */
const LOOK_MS = 10;

interface Notice {
  readonly id: number;
  readonly namespace: string;
  readonly resource: string;
  readonly wakes: string;
}

export class Notices {
  readonly #watchers = new Map<EventQueue<WatchEvent>, string>();
  readonly #file: SqliteFile;
  #last = 0;
  #version = -1;
  #timer: Timer | undefined;

  constructor(file: SqliteFile) {
    this.#file = file;
  }

  async *follow(
    namespace: string,
    signals: readonly AbortSignal[],
  ): AsyncGenerator<WatchEvent, void, void> {
    yield* eventsUntil<WatchEvent>(signals, (queue) => {
      if (this.#watchers.size === 0) this.#begin();
      this.#watchers.set(queue, namespace);
      queue.resync();
      return () => {
        this.#watchers.delete(queue);
        if (this.#watchers.size === 0) this.#timer?.cancel();
      };
    });
  }

  /** Reads what this process has written: that does not change the version. */
  readOwn(): void {
    try {
      this.#read();
    } catch {
      // The file is busy: the next look reads it.
      this.#version = -1;
    }
  }

  #read(): void {
    if (this.#watchers.size === 0) return;
    for (const row of this.#file.sql.notices.all(this.#last)) {
      const { id, namespace, resource, wakes } = row as Notice;
      this.#last = id;
      for (const [queue, watched] of this.#watchers) {
        if (watched === namespace) queue.push({ type: "changed", namespace, resource, wakes });
      }
    }
  }

  #begin(): void {
    this.#look(() => {
      const { id } = this.#file.sql.lastNotice.get() as { id: number };
      this.#last = id;
    });
  }

  #look(work: () => void): void {
    try {
      work();
    } catch {
      // A file that is busy or gone: the next look tries again, and calls tell their callers.
    }
    const again = () => this.#look(() => this.#readIfChanged());
    this.#timer = this.#file.env.clock.timer(LOOK_MS, again, { background: true });
  }

  #readIfChanged(): void {
    // What is not committed yet may be taken back.
    if (this.#file.isInTransaction) return;
    const { data_version: version } = this.#file.sql.version.get() as { data_version: number };
    if (version === this.#version) return;
    this.#read();
    this.#version = version;
  }
}

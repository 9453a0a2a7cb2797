/**
 * The last known state of each resource: a change that rests on it needs no read first. States that were read
 * are kept for the latest resources only. A grant that this client has made or renewed is kept for as long as
 * its TTL, so that no renewal of a held lease reads first, however many are held.
 */
import { type Clock, Recent } from "../../env/index.js";
import { MOST_KNOWN } from "../../store-kit/sightings.js";
import { type Entry, excludesOthers } from "./records.js";

export interface Known {
  readonly entry: Entry;
  /** Consecutive changes by this client since it was read. */
  readonly changes: number;
}

/** Grants whose TTLs began at most the longest of these TTLs apart. */
interface Generation {
  readonly grants: Map<string, Known>;
  readonly sinceMs: number;
  longestTtlMs: number;
}

export class KnownEntries {
  readonly #clock: Clock;
  readonly #read = new Recent<Known>(MOST_KNOWN);
  #young: Generation;
  #old: Generation;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#young = this.#generation(0);
    this.#old = this.#young;
  }

  get(record: string): Known | undefined {
    return this.#young.grants.get(record) ?? this.#old.grants.get(record) ?? this.#read.get(record);
  }

  /** The state of a resource that was read, or that this client's change has left. */
  set(record: string, known: Known): void {
    const { entry, changes } = known;
    if (changes > 0 && excludesOthers(entry)) {
      this.#turn();
      this.#young.grants.set(record, known);
      this.#young.longestTtlMs = Math.max(this.#young.longestTtlMs, entry.record.ttlMs);
    } else {
      this.#forgetGrant(record);
      this.#read.set(record, known);
    }
  }

  delete(record: string): void {
    this.#forgetGrant(record);
    this.#read.delete(record);
  }

  #forgetGrant(record: string): void {
    this.#young.grants.delete(record);
    this.#old.grants.delete(record);
  }

  /** A grant that is renewed moves to the young generation; one that is not is dropped with the old one. */
  #turn(): void {
    const { longestTtlMs, sinceMs } = this.#young;
    if (this.#clock.monotonic() - sinceMs < longestTtlMs) return;
    this.#old = this.#young;
    this.#young = this.#generation(longestTtlMs);
  }

  #generation(longestTtlMs: number): Generation {
    return { grants: new Map(), sinceMs: this.#clock.monotonic(), longestTtlMs };
  }
}

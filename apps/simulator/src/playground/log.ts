/** The event log of a run. */
import type { World } from "leasehold-verification/simulation/world";
import type { Endpoint, LogKind, LogLine } from "./frame.js";

/** Older lines are dropped. The longest run with many faults stays below this. */
const MOST_LINES = 20_000;
const RARELY_MS = 4_000;

/** The lines are part of the hash by which two runs are compared. */
export class Log {
  #lines: readonly LogLine[] = [];
  #fresh: LogLine[] = [];
  #count = 0;
  readonly #rarely = new Map<string, number>();

  constructor(readonly world: World) {}

  /** How many lines have been written: the index of the next one. */
  get end(): number {
    return this.#count;
  }

  add(who: LogLine["who"], kind: LogKind, text: string, isStep = false): void {
    this.world.tell(who, text);
    const line = { index: this.#count, atMs: this.world.nowMs, who, kind, text, isStep };
    this.#fresh.push(line);
    this.#count += 1;
  }

  /** Limits events that repeat while a fault lasts: at most one every RARELY_MS. */
  addRarely(who: Endpoint, kind: LogKind, text: string, isStep = false): void {
    const key = `${who} ${kind}`;
    const lastMs = this.#rarely.get(key) ?? Number.NEGATIVE_INFINITY;
    if (this.world.nowMs - lastMs < RARELY_MS) return;
    this.#rarely.set(key, this.world.nowMs);
    this.add(who, kind, text, isStep);
  }

  /** All kept lines, oldest first; the same array until a line is added. */
  get lines(): readonly LogLine[] {
    if (this.#fresh.length > 0) {
      this.#lines = [...this.#lines, ...this.#fresh].slice(-MOST_LINES);
      this.#fresh = [];
    }
    return this.#lines;
  }
}

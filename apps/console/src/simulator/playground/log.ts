/** The story of a run, line by line. */
import type { World } from "leasehold-verification/simulation/world";
import type { LogKind, LogLine, Place } from "./frame.js";

/** Older lines are forgotten: a run of the longest time with many faults stays within this. */
const MOST_LINES = 20_000;
const RARELY_MS = 4_000;

/** Its lines are part of the hash by which two runs are compared. */
export class Log {
  #lines: readonly LogLine[] = [];
  #fresh: LogLine[] = [];
  #told = 0;
  readonly #rarely = new Map<string, number>();

  constructor(readonly world: World) {}

  /** How many lines have been told: the index of the next one. */
  get end(): number {
    return this.#told;
  }

  tell(who: LogLine["who"], kind: LogKind, text: string, isStep = false): void {
    this.world.tell(who, text);
    const line = { index: this.#told, atMs: this.world.nowMs, who, kind, text, isStep };
    this.#fresh.push(line);
    this.#told += 1;
  }

  /** What happens again and again while something is broken is told now and then. */
  tellRarely(who: Place, kind: LogKind, text: string, isStep = false): void {
    const key = `${who} ${kind}`;
    const lastMs = this.#rarely.get(key) ?? Number.NEGATIVE_INFINITY;
    if (this.world.nowMs - lastMs < RARELY_MS) return;
    this.#rarely.set(key, this.world.nowMs);
    this.tell(who, kind, text, isStep);
  }

  /** All that are kept, oldest first; the same array until another is told. */
  get lines(): readonly LogLine[] {
    if (this.#fresh.length > 0) {
      this.#lines = [...this.#lines, ...this.#fresh].slice(-MOST_LINES);
      this.#fresh = [];
    }
    return this.#lines;
  }
}

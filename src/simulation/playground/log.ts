/** The story of a run, line by line. */
import type { World } from "../world.js";
import type { LogKind, LogLine } from "./frame.js";

/** Older lines are forgotten: a run of the longest time with many faults stays within this. */
const MOST_LINES = 20_000;

/** Its lines are part of the hash by which two runs are compared. */
export class Log {
  #lines: readonly LogLine[] = [];
  #fresh: LogLine[] = [];
  #told = 0;

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

  /** All that are kept, oldest first; the same array until another is told. */
  get lines(): readonly LogLine[] {
    if (this.#fresh.length > 0) {
      this.#lines = [...this.#lines, ...this.#fresh].slice(-MOST_LINES);
      this.#fresh = [];
    }
    return this.#lines;
  }
}

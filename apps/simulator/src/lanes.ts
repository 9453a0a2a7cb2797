/** Which token each process believed in over time, as bars built from the recorded frames. */
import { NODES, type Playground } from "./playground/index.js";

const SAMPLE_MS = 250;

export interface Bar {
  readonly token: number;
  readonly fromMs: number;
  toMs: number;
}

/** One lane for each process. The lanes grow with the run. */
export class Lanes {
  readonly bars: readonly Bar[][] = NODES.map(() => []);
  /** The times at which each process was not running. */
  readonly gaps: readonly Bar[][] = NODES.map(() => []);
  #sampledMs = -SAMPLE_MS;

  follow(playground: Playground): void {
    while (this.#sampledMs + SAMPLE_MS <= playground.reachedMs) {
      this.#sampledMs += SAMPLE_MS;
      const frame = playground.peek(this.#sampledMs);
      if (!frame) continue;
      for (const [index, { token, state }] of frame.nodes.entries()) {
        this.#extend(this.bars[index], token);
        this.#extend(this.gaps[index], state === "up" || frame.atMs === 0 ? null : 0);
      }
    }
  }

  #extend(lane: Bar[] | undefined, token: number | null): void {
    if (!lane || token === null) return;
    const last = lane.at(-1);
    const toMs = this.#sampledMs + SAMPLE_MS;
    if (last?.token === token && last.toMs === this.#sampledMs) last.toMs = toMs;
    else lane.push({ token, fromMs: this.#sampledMs, toMs });
  }
}

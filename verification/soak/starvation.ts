/**
 * How long processes were ready to run and waited for a processor, as Linux counts it: on a machine that
 * has more to do than it can, that is what loses leases, and nothing that a program could do about it.
 */
import { readFileSync } from "node:fs";
import { setInterval as every } from "node:timers";

const EVERY_MS = 500;

/** That much of the time from one to the other waited the one of them that waited longest. */
export interface Starved {
  readonly fromMs: number;
  readonly toMs: number;
  readonly waitedMs: number;
}

export class Starvation {
  readonly records: Starved[] = [];
  readonly #timer: NodeJS.Timeout;
  #lastMs = Date.now();
  #lastWaitedMs: readonly number[];

  constructor(readonly pids: readonly number[]) {
    this.#lastWaitedMs = pids.map(waitedMsOf);
    this.#timer = every(() => this.#look(), EVERY_MS);
  }

  get totalMs(): number {
    return this.records.reduce((total, { waitedMs }) => total + waitedMs, 0);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#look();
  }

  #look(): void {
    const [fromMs, toMs, waitedMs] = [this.#lastMs, Date.now(), this.pids.map(waitedMsOf)];
    const more = waitedMs.map((now, index) => now - (this.#lastWaitedMs[index] ?? now));
    // A clock that was set back, and a look at the end right after the last, have seen no time pass.
    if (toMs > fromMs) this.records.push({ fromMs, toMs, waitedMs: Math.max(0, ...more) });
    [this.#lastMs, this.#lastWaitedMs] = [toMs, waitedMs];
  }
}

/** How long its main thread has waited for a processor so far; 0 where the system does not count that. */
function waitedMsOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}

/**
 * A machine with clocks of its own, and the process on it.
 *
 *           pause (SIGSTOP, a long collection)    events wait; both clocks go on
 *           suspend (a laptop's lid, a live migration)  as pause, and the monotonic clock stands still
 *           freeze                                the monotonic clock stands still, the process runs
 *   up ───┤
 *           rate 0.9-1.1                          both clocks run fast or slow
 *           jump                                  the wall clock is set
 *           crash ──▶ down ──restart──▶ a new process: nothing of the old one ever runs again
 */

import type { Clock, Env, Timer } from "leasehold";
import { invariant, silentLogger } from "leasehold/internal";
import { seededRandom } from "leasehold/testing";
import TinyQueue from "tinyqueue";
import type { World } from "./world.js";

/** A wall clock shows some day of 2030, give or take its offset. */
const EPOCH_MS = Date.UTC(2030, 0, 1);
const HAIR_MS = 0.001;
/** Node's own. */
const SHORTEST_TIMER_MS = 1;

interface Pending {
  readonly dueMs: number;
  readonly order: number;
  callback: (() => void) | null;
}

export class Machine {
  #process: Process | undefined;
  #rate: number;
  #wallOffsetMs: number;
  /** True time of the last change of a clock, and what the clocks had gained by then. */
  #sinceMs = 0;
  #monotonicMs: number;
  #localMs = 0;
  #stopped = false;
  #still = false;

  constructor(
    readonly world: World,
    readonly name: string,
    options: { rate?: number; wallOffsetMs?: number } = {},
  ) {
    this.#rate = options.rate ?? 1;
    this.#wallOffsetMs = options.wallOffsetMs ?? 0;
    this.#monotonicMs = world.between(0, 1e6);
  }

  /** Milliseconds of the monotonic clock at this moment of true time. */
  get monotonicMs(): number {
    const passedMs = (this.world.nowMs - this.#sinceMs) * this.#rate;
    return this.#monotonicMs + (this.#still ? 0 : passedMs);
  }

  get wallMs(): number {
    const passedMs = (this.world.nowMs - this.#sinceMs) * this.#rate;
    return EPOCH_MS + this.#wallOffsetMs + this.#localMs + passedMs;
  }

  /** The process that runs, or waits while the machine is stopped; undefined after a crash. */
  get process(): Process | undefined {
    return this.#process;
  }

  /** Whether events reach the process. */
  get running(): boolean {
    return !this.#stopped && this.#process !== undefined;
  }

  /** Monotonic milliseconds per true millisecond. */
  get speed(): number {
    return this.#still ? 0 : this.#rate;
  }

  start(): Process {
    invariant(!this.#process, `${this.name} has no process yet`);
    this.world.tell(this.name, "starts");
    this.#process = new Process(this);
    return this.#process;
  }

  /** Like kill -9 or a loss of power. */
  crash(): void {
    if (!this.#process) return;
    this.world.tell(this.name, "crashes");
    this.#process.end();
    this.#process = undefined;
    this.#stopped = false;
  }

  stop(): void {
    this.#change("is paused", () => {
      this.#stopped = true;
    });
  }

  suspend(): void {
    this.#change("is suspended", () => {
      this.#stopped = true;
      this.#still = true;
    });
  }

  freezeMonotonic(): void {
    this.#change("has a monotonic clock that stands still", () => {
      this.#still = true;
    });
  }

  /** Ends a pause, a suspend or a freeze. */
  resume(): void {
    this.#change("goes on", () => {
      this.#stopped = false;
      this.#still = false;
    });
    this.#process?.flush();
  }

  /** Both clocks run at this rate from now on. */
  setRate(rate: number): void {
    this.#change(`has clocks that run at ${rate}`, () => {
      this.#rate = rate;
    });
  }

  jumpWall(ms: number): void {
    this.#change(`has its wall clock set by ${Math.round(ms)} ms`, () => {
      this.#wallOffsetMs += ms;
    });
  }

  /** Both clocks, as those of a database are one. */
  jumpAhead(ms: number): void {
    this.#change(`has clocks that jump ahead by ${Math.round(ms)} ms`, () => {
      this.#monotonicMs += ms;
      this.#localMs += ms;
    });
  }

  #change(what: string, change: () => void): void {
    this.world.tell(this.name, what);
    this.#monotonicMs = this.monotonicMs;
    this.#localMs += (this.world.nowMs - this.#sinceMs) * this.#rate;
    this.#sinceMs = this.world.nowMs;
    change();
    this.#process?.rearm();
  }
}

/** What runs on a machine, from its start to its crash. The real code is given its env. */
export class Process {
  readonly env: Env;
  readonly #machine: Machine;
  readonly #timers = new TinyQueue<Pending>([], (a, b) => a.dueMs - b.dueMs || a.order - b.order);
  readonly #arrived: (() => void)[] = [];
  #armed: Timer | undefined;
  #order = 0;
  #ended = false;

  /** @internal */
  constructor(machine: Machine) {
    this.#machine = machine;
    const { world } = machine;
    const clock: Clock = {
      wall: () => machine.wallMs,
      monotonic: () => machine.monotonicMs,
      timer: (delayMs, callback) => this.#timer(delayMs, callback),
    };
    const random = seededRandom(Math.floor(world.random.float() * 2 ** 48));
    this.env = { clock, random, logger: silentLogger };
  }

  get name(): string {
    return this.#machine.name;
  }

  get alive(): boolean {
    return !this.#ended;
  }

  /** Runs `event` on this process: now, when it goes on, or never if it has crashed. */
  deliver(event: () => void): void {
    if (this.#ended) return;
    if (this.#machine.running) event();
    else this.#arrived.push(event);
  }

  /** @internal */
  end(): void {
    this.#ended = true;
    this.#armed?.cancel();
    this.#arrived.length = 0;
  }

  /** What arrived during a pause comes in as events of its own. @internal */
  flush(): void {
    for (const event of this.#arrived.splice(0)) {
      this.#machine.world.after(0, () => this.deliver(event));
    }
  }

  /** The clock runs otherwise than before. @internal */
  rearm(): void {
    this.#armed?.cancel();
    this.#armed = undefined;
    let next = this.#timers.peek();
    while (next && !next.callback) {
      this.#timers.pop();
      next = this.#timers.peek();
    }
    const { speed, running, monotonicMs, world } = this.#machine;
    if (!next || this.#ended || !running) return;
    const leftMs = next.dueMs - monotonicMs;
    if (leftMs > 0 && speed === 0) return;
    // A hair late, as real timers are: never before the clock says so.
    this.#armed = world.after(leftMs <= 0 ? 0 : leftMs / speed + HAIR_MS, () => this.#fire());
  }

  #timer(delayMs: number, callback: () => void): Timer {
    const pending: Pending = {
      dueMs: this.#machine.monotonicMs + Math.max(SHORTEST_TIMER_MS, delayMs),
      order: this.#order++,
      callback,
    };
    if (this.#ended) return { cancel() {} };
    this.#timers.push(pending);
    if (this.#timers.peek() === pending) this.rearm();
    return {
      cancel: () => {
        pending.callback = null;
      },
    };
  }

  #fire(): void {
    const next = this.#timers.pop();
    const callback = next?.callback;
    if (next) next.callback = null;
    this.rearm();
    callback?.();
  }
}

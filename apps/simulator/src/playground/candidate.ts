/** One of the processes: its machine, its faults, and the program that runs on it. */
import { Machine } from "leasehold-verification/simulation/machine";
import type { Link, NodeFrame, ProcessState } from "./frame.js";
import type { Ledger } from "./ledger.js";
import { Program } from "./program.js";
import type { Resource } from "./resource.js";
import type { NodeName } from "./settings.js";
import type { Stage } from "./stage.js";
import { duration, ordinal } from "./words.js";

export class Candidate {
  readonly machine: Machine;
  state: ProcessState = "down";
  /** How often it has started. */
  starts = 0;
  #percent: number;
  /** The slowest that its clocks have run. */
  leastPercent: number;
  wasSuspended = false;
  wasSetBack = false;
  program: Program | undefined;
  #frozenSinceMs = 0;
  readonly #stage: Stage;

  constructor(
    stage: Stage,
    readonly name: NodeName,
    percent: number,
  ) {
    this.#stage = stage;
    this.#percent = percent;
    this.leastPercent = percent;
    this.machine = new Machine(stage.world, name, { rate: 1 + percent / 100 });
  }

  /** Starts a new process. */
  start(ledger: Ledger, resource: Resource, onBroken: (error: unknown) => void): void {
    this.starts += 1;
    this.state = "up";
    const process = this.machine.start();
    // A restarted process is another holder.
    const holder = this.starts === 1 ? this.name : `${this.name}/${this.starts}`;
    this.program = new Program(this.#stage, process, holder, ledger, resource);
    this.program.run().catch(onBroken);
  }

  crash(): void {
    this.#stopsWorking();
    // A frozen machine would stay frozen after its restart.
    if (this.state !== "up") this.machine.resume();
    this.machine.crash();
    this.program = undefined;
    this.state = "down";
  }

  /** Freezes the process until resume(). */
  freeze(how: "paused" | "suspended"): void {
    this.#stopsWorking();
    this.#frozenSinceMs = this.#stage.world.nowMs;
    this.state = how;
    if (how === "suspended") this.wasSuspended = true;
    if (how === "paused") this.machine.stop();
    else this.machine.suspend();
  }

  /** @returns how long it was frozen */
  resume(): number {
    this.state = "up";
    this.machine.resume();
    const { belief, role } = this.program ?? {};
    if (belief && belief.trustMs > 0 && role === "leader") {
      this.#stage.tally.resumed(this.name, belief.token);
    }
    return this.#stage.world.nowMs - this.#frozenSinceMs;
  }

  /** The speed of its clocks relative to true time, in percent. */
  get percent(): number {
    return this.#percent;
  }

  set percent(percent: number) {
    this.#percent = percent;
    this.leastPercent = Math.min(this.leastPercent, percent);
    this.machine.setRate(1 + percent / 100);
  }

  get link(): Link {
    const { network } = this.#stage;
    const out = network.isCut(this.name, "store");
    const back = network.isCut("store", this.name);
    if (out && back) return "cut off";
    if (out) return "cannot send";
    return back ? "cannot receive" : "whole";
  }

  /** Why it did not renew, as a clause. */
  get excuse(): string {
    if (this.state === "down") return `${this.name} has crashed`;
    if (this.state !== "up") return `${this.name} is ${this.state} and does not notice`;
    if (this.link === "cut off") return `${this.name} is cut off from the store`;
    if (this.link !== "whole") return `${this.name} ${this.link} on its connection to the store`;
    return `no renewal from ${this.name} arrived in time`;
  }

  frame(queue: readonly NodeName[], writes: number): NodeFrame {
    const { name, state, link, program, starts, machine } = this;
    const position = queue.indexOf(name) + 1;
    const belief = program?.belief ?? null;
    return {
      name,
      state,
      link,
      starts,
      writes,
      clockRate: machine.speed,
      role: program?.role ?? "off",
      token: belief?.token ?? null,
      trustMs: belief?.trustMs ?? 0,
      ttlMs: belief?.ttlMs ?? this.#stage.settings.ttlMs,
      queuePosition: position > 0 ? position : null,
      doing: this.#doing(position),
    };
  }

  #doing(position: number): string {
    const { program, state } = this;
    if (!program) return this.starts === 0 ? "has not started yet" : "has crashed";
    if (state !== "up") {
      const forMs = this.#stage.world.nowMs - this.#frozenSinceMs;
      return program.isChecked
        ? `${state} for ${duration(forMs)}, with a write checked but not sent`
        : `${state} for ${duration(forMs)}`;
    }
    switch (program.role) {
      case "leader":
        return program.isChecked
          ? "has checked its lease and prepares a write"
          : "leads: renews and writes";
      case "stopping":
        return "is stopping its work";
      case "starting":
        return "was granted the lease; checks for a named successor";
      case "candidate":
      case "off":
        return position > 0 ? `waits, ${ordinal(position)} in queue` : "requests the lease";
    }
  }

  #stopsWorking(): void {
    const { belief } = this.program ?? {};
    if (belief) this.#stage.tally.stopped(this.name, belief.token);
  }
}

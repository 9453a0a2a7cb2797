/** One of the processes: its machine, what was done to it, and the program that runs on it. */
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
  /** How often it was started. */
  starts = 0;
  #percent: number;
  /** The slowest that its clocks have been. */
  leastPercent: number;
  wasSuspended = false;
  wasSetBack = false;
  program: Program | undefined;
  #standsSinceMs = 0;
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

  /** A new process. */
  start(ledger: Ledger, resource: Resource, onBroken: (error: unknown) => void): void {
    this.starts += 1;
    this.state = "up";
    const process = this.machine.start();
    // A process that is started again is another holder.
    const holder = this.starts === 1 ? this.name : `${this.name}/${this.starts}`;
    this.program = new Program(this.#stage, process, holder, ledger, resource);
    this.program.run().catch(onBroken);
  }

  crash(): void {
    this.#stopsWorking();
    // What stands still would stand still after its start.
    if (this.state !== "up") this.machine.resume();
    this.machine.crash();
    this.program = undefined;
    this.state = "down";
  }

  /** Stands still until resume(). */
  stand(how: "paused" | "suspended"): void {
    this.#stopsWorking();
    this.#standsSinceMs = this.#stage.world.nowMs;
    this.state = how;
    if (how === "suspended") this.wasSuspended = true;
    if (how === "paused") this.machine.stop();
    else this.machine.suspend();
  }

  /** @returns how long it stood still */
  resume(): number {
    this.state = "up";
    this.machine.resume();
    const { belief, role } = this.program ?? {};
    if (belief && belief.trustMs > 0 && role === "leader") {
      this.#stage.tally.wentOn(this.name, belief.token);
    }
    return this.#stage.world.nowMs - this.#standsSinceMs;
  }

  /** Of its clocks against true time, in percent. */
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
    if (this.state === "down") return `${this.name} is dead`;
    if (this.state !== "up") return `${this.name} stands still, and knows nothing of it`;
    if (this.link === "cut off") return `${this.name} is cut off from the store`;
    if (this.link !== "whole") return `${this.name} ${this.link} between itself and the store`;
    return `no renewal of ${this.name} came in time`;
  }

  frame(line: readonly NodeName[], writes: number): NodeFrame {
    const { name, state, link, program, starts, machine } = this;
    const place = line.indexOf(name) + 1;
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
      placeInLine: place > 0 ? place : null,
      doing: this.#doing(place),
    };
  }

  #doing(place: number): string {
    const { program, state } = this;
    if (!program) return this.starts === 0 ? "Has not started yet" : "Dead: it knows nothing";
    if (state !== "up") {
      const forMs = this.#stage.world.nowMs - this.#standsSinceMs;
      return program.isChecked
        ? `Stands still for ${duration(forMs)}, with a write checked but not sent`
        : `Stands still for ${duration(forMs)}`;
    }
    switch (program.role) {
      case "leader":
        return program.isChecked
          ? "Has checked its lease, and makes a write"
          : "Leads: renews and writes";
      case "stopping":
        return "Was told to stop; its work ends";
      case "starting":
        return "Was granted the lease; looks whether another was named";
      case "candidate":
      case "off":
        return place > 0 ? `Waits, ${ordinal(place)} in line` : "Asks for the lease";
    }
  }

  #stopsWorking(): void {
    const { belief } = this.program ?? {};
    if (belief) this.#stage.tally.stopped(this.name, belief.token);
  }
}

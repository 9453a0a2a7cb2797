/** One run of a script, forward only: the simulated world, its processes, and what is recorded of them. */
import { CALM, Network } from "leasehold-verification/simulation/network";
import { World } from "leasehold-verification/simulation/world";
import type { Action, TimedAction } from "./actions.js";
import { Candidate } from "./candidate.js";
import type { Frame, InvariantId, WriteFrame } from "./frame.js";
import { Invariants } from "./invariants.js";
import { Ledger } from "./ledger.js";
import { Log } from "./log.js";
import { Messages } from "./messages.js";
import { type Cast, perform } from "./perform.js";
import { Resource } from "./resource.js";
import { scenarioById } from "./scenarios.js";
import type { Script } from "./script.js";
import { NODES } from "./settings.js";
import type { Stage } from "./stage.js";
import { Tally } from "./tally.js";
import { nodeOf } from "./words.js";

export class Run {
  readonly #stage: Stage;
  readonly #ledger: Ledger;
  readonly #resource: Resource;
  readonly #messages: Messages;
  readonly #candidates: readonly Candidate[];
  readonly #cast: Cast;
  /** The remaining actions, in the order of time. */
  readonly #actions: TimedAction[];
  #broken: Error | undefined;

  constructor({ scenario, seed, settings, actions }: Script) {
    const world = new World(seed);
    const network = new Network(world);
    const log = new Log(world);
    const tally = new Tally(world);
    const stage: Stage = { world, network, log, tally, settings, invariants: new Invariants(log) };
    this.#stage = stage;
    this.#ledger = new Ledger(stage, {
      isAlive: (holder) => this.#ofHolder(holder) !== undefined,
      excuseOf: (holder) => this.#excuseOf(holder),
      granted: (leaseId) => this.#onGranted(leaseId),
    });
    this.#resource = new Resource(stage);
    this.#messages = new Messages(stage, (leaseId) => this.#ledger.tokenOf(leaseId));
    network.watcher = this.#messages;
    this.#candidates = NODES.map(
      (name, index) => new Candidate(stage, name, settings.clockPercents[index] ?? 0),
    );
    this.#cast = this.#newCast();
    this.#cast.applyWeather();
    for (const [index, candidate] of this.#candidates.entries()) {
      world.after(settings.startsMs[index] ?? 0, () => {
        if (candidate.starts > 0) return;
        this.#start(candidate);
        log.add(candidate.name, "process", `${candidate.name} starts and requests the lease.`);
      });
    }
    const plan = scenarioById(scenario).plan(settings);
    this.#actions = [...plan, ...actions].sort((a, b) => a.atMs - b.atMs);
  }

  get nowMs(): number {
    return this.#stage.world.nowMs;
  }

  get log(): Log {
    return this.#stage.log;
  }

  /** The hash of the log so far. */
  get hash(): string {
    return this.#stage.world.trace.hash;
  }

  /** Writes with a token older than an earlier one. */
  get staleWrites(): readonly WriteFrame[] {
    return this.#resource.stale;
  }

  /** The time without a leader, for each change of leaders. */
  get failOversMs(): readonly number[] {
    return this.#stage.tally.failOversMs;
  }

  /**
   * Runs to that moment of true time, including the script's actions for it.
   * @throws an error of the simulated code
   */
  async runTo(atMs: number): Promise<void> {
    for (let next = this.#actions[0]; next && next.atMs <= atMs; next = this.#actions[0]) {
      this.#actions.shift();
      await this.#run(next.atMs);
      perform(this.#cast, next.action);
    }
    await this.#run(atMs);
  }

  /** Performs an action now. */
  async perform(action: Action): Promise<void> {
    perform(this.#cast, action);
    await this.#run(this.nowMs);
  }

  /** The current moment. Changes nothing. */
  frame(): Frame {
    const { world, settings, tally, invariants, log } = this.#stage;
    const store = this.#ledger.frame(this.#cast.storeState);
    const excuses: Partial<Record<InvariantId, string | null>> = {
      trustWithinGrant: this.#excuseOfClocks(({ percent }) => percent),
      neverBack: settings.fenced ? null : "fencing is off",
    };
    return {
      atMs: world.nowMs,
      settings,
      nodes: this.#candidates.map((candidate) =>
        candidate.frame(store.queue, this.#resource.writesOf(candidate.name)),
      ),
      store,
      resource: this.#resource.frame(),
      messages: this.#messages.frame(),
      counters: tally.frame(),
      invariants: invariants.frame(excuses),
      logEnd: log.end,
    };
  }

  async #run(untilMs: number): Promise<void> {
    const { world } = this.#stage;
    await world.runUntil(untilMs);
    if (world.violation) throw new Error(`${world.violation.property}: ${world.violation.what}`);
    if (this.#broken) throw this.#broken;
  }

  #newCast(): Cast {
    const stage = this.#stage;
    const candidates = this.#candidates;
    return {
      stage,
      ledger: this.#ledger,
      messages: this.#messages,
      storeState: "up",
      candidate: (name) => candidates[NODES.indexOf(name)] as Candidate,
      leader: () =>
        candidates
          .filter(({ program }) => program?.role === "leader")
          .sort((a, b) => (b.program?.belief?.token ?? 0) - (a.program?.belief?.token ?? 0))[0],
      start: (candidate) => this.#start(candidate),
      useSettings: () => {
        for (const { machine, program } of candidates) {
          machine.process?.deliver(() => program?.useSettings());
        }
      },
      applyWeather: () => {
        const { latencyMs, lossPercent } = stage.settings;
        const [fastestMs, slowestMs] = [0.8 * latencyMs, 1.2 * latencyMs];
        stage.network.weather = { ...CALM, loss: lossPercent / 100, fastestMs, slowestMs };
      },
    };
  }

  #start(candidate: Candidate): void {
    candidate.start(this.#ledger, this.#resource, (error) => {
      this.#broken ??= error instanceof Error ? error : new Error(String(error));
    });
  }

  /** The live process with this holder name. */
  #ofHolder(holder: string): Candidate | undefined {
    return this.#candidates.find(({ program }) => program?.holder === holder);
  }

  #excuseOf(holder: string): string {
    if (this.#cast.storeState !== "up")
      return "the store was unavailable, so no process could renew";
    return this.#ofHolder(holder)?.excuse ?? `${nodeOf(holder)} has crashed`;
  }

  /** Checks at each grant that no process still trusts an older one. */
  #onGranted(leaseId: string): void {
    for (const { name, program } of this.#candidates) {
      const { belief, leaseId: own } = program ?? {};
      if (!belief || own === undefined || own === leaseId || belief.trustMs <= 0) continue;
      const excuse = this.#ledger.wasEndedEarly(own)
        ? "the lease was ended early"
        : this.#excuseOfClocks(({ leastPercent }) => leastPercent);
      const what = `${name} still trusted token ${belief.token} for ${Math.round(belief.trustMs)} ms by its own clocks when the next one was granted`;
      this.#stage.invariants.broken("trustWithinGrant", what, excuse);
    }
  }

  /** Why trust may outlive a grant; null: every clock is within the drift that holders allow for. */
  #excuseOfClocks(percentOf: (candidate: Candidate) => number): string | null {
    const { driftRatioPercent } = this.#stage.settings;
    for (const candidate of this.#candidates) {
      const { name, wasSuspended, wasSetBack } = candidate;
      const percent = percentOf(candidate);
      if (-percent > driftRatioPercent) {
        return `the clocks of ${name} run ${-percent} % slow, but holders allow for ${driftRatioPercent} %`;
      }
      if (wasSuspended && wasSetBack) {
        return `both clocks of ${name} were wrong: one stopped, the other was set back`;
      }
    }
    return null;
  }
}

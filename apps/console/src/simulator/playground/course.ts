/** One run of a script, forward only: the world, the processes in it, and what is seen of them. */
import { CALM, Network } from "leasehold-verification/simulation/network";
import { World } from "leasehold-verification/simulation/world";
import type { Act, TimedAct } from "./acts.js";
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

export class Course {
  readonly #stage: Stage;
  readonly #ledger: Ledger;
  readonly #resource: Resource;
  readonly #messages: Messages;
  readonly #candidates: readonly Candidate[];
  readonly #cast: Cast;
  /** What is still to be done, in the order of time. */
  readonly #acts: TimedAct[];
  #broken: Error | undefined;

  constructor({ scenario, seed, settings, acts }: Script) {
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
        log.tell(candidate.name, "process", `${candidate.name} starts, and asks for the lease.`);
      });
    }
    const plan = scenarioById(scenario).plan(settings);
    this.#acts = [...plan, ...acts].sort((a, b) => a.atMs - b.atMs);
  }

  get nowMs(): number {
    return this.#stage.world.nowMs;
  }

  get log(): Log {
    return this.#stage.log;
  }

  /** Of everything that has been told so far. */
  get hash(): string {
    return this.#stage.world.trace.hash;
  }

  /** Writes that came with an older token than one before. */
  get staleWrites(): readonly WriteFrame[] {
    return this.#resource.stale;
  }

  /** How long nobody led, for each change of leaders. */
  get failOversMs(): readonly number[] {
    return this.#stage.tally.failOversMs;
  }

  /**
   * Runs on to that time of true time; what the script says for then has been done.
   * @throws what broke in the code under the world
   */
  async runTo(atMs: number): Promise<void> {
    for (let next = this.#acts[0]; next && next.atMs <= atMs; next = this.#acts[0]) {
      this.#acts.shift();
      await this.#run(next.atMs);
      perform(this.#cast, next.act);
    }
    await this.#run(atMs);
  }

  /** Does it now. */
  async perform(act: Act): Promise<void> {
    perform(this.#cast, act);
    await this.#run(this.nowMs);
  }

  /** Looks, and changes nothing. */
  frame(): Frame {
    const { world, settings, tally, invariants, log } = this.#stage;
    const store = this.#ledger.frame(this.#cast.storeState);
    const excuses: Partial<Record<InvariantId, string | null>> = {
      trustWithinGrant: this.#excuseOfClocks(({ percent }) => percent),
      neverBack: settings.fenced ? null : "the resource does not fence",
    };
    return {
      atMs: world.nowMs,
      settings,
      nodes: this.#candidates.map((candidate) =>
        candidate.frame(store.line, this.#resource.writesOf(candidate.name)),
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

  /** Whose process holds by this name, and has not died. */
  #ofHolder(holder: string): Candidate | undefined {
    return this.#candidates.find(({ program }) => program?.holder === holder);
  }

  #excuseOf(holder: string): string {
    if (this.#cast.storeState !== "up") return "the store was away, and nobody could renew";
    return this.#ofHolder(holder)?.excuse ?? `${nodeOf(holder)} is dead`;
  }

  /** The store has made a grant: nobody should trust an older one now. */
  #onGranted(leaseId: string): void {
    for (const { name, program } of this.#candidates) {
      const { belief, leaseId: own } = program ?? {};
      if (!belief || own === undefined || own === leaseId || belief.trustMs <= 0) continue;
      const excuse = this.#ledger.wasEndedEarly(own)
        ? "the lease was ended before its time"
        : this.#excuseOfClocks(({ leastPercent }) => leastPercent);
      const what = `${name} still trusted token ${belief.token} for ${Math.round(belief.trustMs)} ms by its own clocks when the next one was granted`;
      this.#stage.invariants.broken("trustWithinGrant", what, excuse);
    }
  }

  /** Why trust may outlive a grant; null: every clock is within what holders allow for. */
  #excuseOfClocks(percentOf: (candidate: Candidate) => number): string | null {
    const { driftRatioPercent } = this.#stage.settings;
    for (const candidate of this.#candidates) {
      const { name, wasSuspended, wasSetBack } = candidate;
      const percent = percentOf(candidate);
      if (-percent > driftRatioPercent) {
        return `the clocks of ${name} run ${-percent} % slow, and holders allow for ${driftRatioPercent} %`;
      }
      if (wasSuspended && wasSetBack) {
        return `both clocks of ${name} were wrong: one stood still, the other was set back`;
      }
    }
    return null;
  }
}

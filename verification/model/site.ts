/**
 * Where programs run: clients on machines of their own, over one memory store. Time is simulated. The
 * network takes 1 ms each way and loses nothing, unless a step of the program says so.
 *
 *   client ──1 ms──▶ tap ──▶ memory store      the tap shows each decision to a model of the store, and
 *          ◀──1 ms──  │                        loses the request or the reply that a step names
 */
import { type ConnectOptions, connect, type Env, type Leasehold, LeaseholdError } from "leasehold";
import { MemoryLeaseState, MemoryTaskState } from "leasehold/internal/memory";
import { Machine, type Process } from "../simulation/machine.js";
import { Network } from "../simulation/network.js";
import { remoteLeases, remoteTasks } from "../simulation/remote.js";
import { settledByTicks } from "../simulation/settled.js";
import { World } from "../simulation/world.js";
import type { Loss } from "./faults.js";
import type { LeaseBook } from "./lease-book.js";
import { tappedLeases, tappedTasks } from "./tap.js";
import type { TaskBook } from "./task-book.js";

export const NAMESPACE = "default";
/** Of the network, in each direction. */
const LATENCY_MS = 1;
/** Time passes in slices of this length, with the invariants checked after each. */
export const SLICE_MS = 20;
/** A client has recovered from a pause or a lost message after this time: every timeout is shorter. */
const RECOVERY_MS = 16_000;

export class Client {
  readonly process: Process;
  readonly #machine: Machine;
  leasehold!: Leasehold;
  /** By operation of the store: what becomes of the next calls. */
  readonly losing = new Map<string, { readonly message: Loss; times: number }>();
  closing: Promise<void> | undefined;
  isClosed = false;
  resumedAtMs = -Infinity;
  #faultyUntilMs = -Infinity;

  constructor(
    readonly site: Site,
    readonly name: string,
  ) {
    this.#machine = new Machine(site.world, name);
    this.process = this.#machine.start();
  }

  /** Whether its program runs now. */
  get isRunning(): boolean {
    return !this.#paused;
  }
  #paused = false;

  /** Whether a fault may have made it late since then. */
  isFaultySince(sinceMs: number): boolean {
    return this.#paused || this.losing.size > 0 || this.#faultyUntilMs > sinceMs;
  }

  get isFaulty(): boolean {
    return this.isFaultySince(this.site.nowMs);
  }

  faulted(): void {
    this.#faultyUntilMs = this.site.nowMs + RECOVERY_MS;
  }

  pause(ms: number): void {
    this.#paused = true;
    this.#machine.stop();
    this.site.world.after(ms, () => this.resume());
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.site.count("pause: over");
    this.resumedAtMs = this.site.nowMs;
    this.faulted();
    this.#machine.resume();
  }
}

/** A promise that a model contradicts; the message says which. */
export class Broken extends Error {
  override readonly name = "Broken";
}

export class Site {
  readonly world: World;
  readonly network: Network;
  readonly database: Machine;
  readonly clients: Client[] = [];
  readonly leases: MemoryLeaseState;
  readonly tasks: MemoryTaskState;
  readonly #env: Env;

  private constructor(seed: number) {
    this.world = new World(seed, { settled: settledByTicks });
    this.network = new Network(this.world);
    this.network.weather = {
      loss: 0,
      duplicate: 0,
      fastestMs: LATENCY_MS,
      slowestMs: LATENCY_MS,
      late: 0,
      latestMs: LATENCY_MS,
    };
    this.database = new Machine(this.world, "database");
    const { env } = this.database.start();
    this.#env = env;
    this.leases = new MemoryLeaseState(env.clock);
    this.tasks = new MemoryTaskState(env);
  }

  static async open(
    seed: number,
    names: readonly string[],
    books: { leases: (site: Site) => LeaseBook; tasks?: (site: Site) => TaskBook },
    options: Pick<ConnectOptions, "graceMs"> = {},
  ): Promise<Site> {
    const site = new Site(seed);
    const leaseBook = books.leases(site);
    const taskBook = books.tasks?.(site);
    for (const name of names) {
      const client = new Client(site, name);
      site.clients.push(client);
      const leases = tappedLeases(client, leaseBook);
      const tasks = taskBook && tappedTasks(client, taskBook);
      const { network, database } = site;
      const source = {
        open: async () => ({
          leases: remoteLeases(network, client.process, database, () => leases),
          ...(tasks && { tasks: remoteTasks(network, client.process, database, () => tasks) }),
          close: async () => {},
        }),
      };
      client.leasehold = await connect(source, {
        namespace: NAMESPACE,
        holder: name,
        // Without a scope, which makes every promise slower: no program nests runs.
        env: { ...client.process.env, scope: undefined },
        ...options,
      });
    }
    return site;
  }

  /** By the clock of the store. */
  get nowMs(): number {
    return this.database.monotonicMs;
  }

  /** Lets the promises that are ready settle. */
  async flush(): Promise<void> {
    for (let turn = 0; turn < 3; turn += 1) await settledByTicks();
    this.check();
  }

  /** Lets time pass, and calls `look` after each slice. */
  async pass(ms: number, look: () => void | Promise<void>): Promise<void> {
    const untilMs = this.world.nowMs + ms;
    do {
      await this.world.runUntil(Math.min(untilMs, this.world.nowMs + SLICE_MS));
      this.check();
      await look();
      this.check();
    } while (this.world.nowMs < untilMs);
  }

  /** Passes time until the condition holds. */
  async until(
    what: string,
    mostMs: number,
    look: () => void | Promise<void>,
    isSo: () => boolean,
  ): Promise<void> {
    const untilMs = this.world.nowMs + mostMs;
    while (!isSo()) {
      if (this.world.nowMs >= untilMs) this.broken(`${what} within ${mostMs} ms`);
      await this.pass(SLICE_MS, look);
    }
  }

  count(what: string): void {
    this.world.cover(what);
  }

  /** Ends the run: what should be so. */
  broken(what: string): void {
    this.world.violate("model", what);
  }

  expect(isSo: boolean, what: string | (() => string)): void {
    if (!isSo) this.broken(typeof what === "string" ? what : what());
  }

  /** @throws Broken */
  check(): void {
    const { violation } = this.world;
    if (violation) throw new Broken(`${violation.what} (at ${Math.round(violation.atMs)} ms)`);
  }
}

/** The code of a library's error; what it is for any other. */
export function codeOf(error: unknown): string {
  if (error instanceof LeaseholdError) return error.code;
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

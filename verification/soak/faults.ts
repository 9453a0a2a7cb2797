/** What befalls the processes that are watched, one after the other, each kind as often as the others. */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "leasehold";
import type { Direction, TcpProxy } from "../../tests/support/faults/tcp-proxy.js";
import type { SoakDatabase } from "./database.js";
import type { Observed } from "./processes.js";

export interface FaultSite {
  readonly database: SoakDatabase;
  /** Between the process that uses the library and its database; between the server and that. */
  readonly ways: { readonly library: TcpProxy; readonly server: TcpProxy };
  readonly library: Observed;
  readonly server: Observed;
  readonly worker: Observed;
  /** Ends the worker that is not measured, and starts another one. */
  replaceWorker(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
}

/** One that has been. */
export interface FaultRecord {
  readonly kind: string;
  /** Whose connections or whose process. */
  readonly of: string;
  readonly fromMs: number;
  readonly toMs: number;
  /** Whose way to the database was cut off meanwhile, so that it may explain what was lost. */
  readonly cuts: "library" | "server" | null;
}

type Fault = (site: FaultSite, way: TcpProxy, random: Random, ttlMs: number) => Promise<unknown>;

const oneOf = <T>(random: Random, all: readonly T[]): T | undefined =>
  all[Math.floor(random.float() * all.length)];
const direction = (random: Random): Direction => (random.float() < 0.5 ? "toServer" : "toClient");
/** So that renewals, which come every third of a ttl, find their way before a lease is in danger. */
const short = (random: Random, ttlMs: number) => ttlMs * (0.05 + 0.25 * random.float());
const lasting = (start: (way: TcpProxy, random: Random) => void): Fault => {
  return async (_, way, random, ttlMs) => {
    start(way, random);
    await delay(short(random, ttlMs));
    way.heal();
  };
};

const FAULTS: Readonly<Record<string, Fault>> = {
  "one connection is reset": async (_, way, random) => oneOf(random, way.connections)?.reset(),
  "all connections are reset": async (_, way) => way.reset(),
  "one connection is half closed": async (_, way, random) =>
    oneOf(random, way.connections)?.halfClose(direction(random)),
  "one session is terminated": ({ database }) => database.terminate(1),
  "all sessions are terminated": ({ database }) => database.terminate(1_000),
  "an answer is dropped": async (_, way, random, ttlMs) => {
    // It goes on to wait for one if nothing is asked meanwhile.
    const dropped = way.dropNextAnswer();
    await Promise.race([dropped.catch(() => {}), delay(short(random, ttlMs))]);
  },
  delays: lasting((way) => {
    way.delay("toServer", 20, 20);
    way.delay("toClient", 20, 20);
  }),
  "bytes in pieces": lasting((way) => {
    way.slice("toServer", 16);
    way.slice("toClient", 16);
  }),
  "a blackhole one way": lasting((way, random) => way.blackhole(direction(random))),
  "a blackhole both ways": lasting((way) => {
    way.blackhole("toServer");
    way.blackhole("toClient");
  }),
  "bytes are held back": lasting((way) => {
    way.hold("toServer");
    way.hold("toClient");
  }),
  "the library's process is stopped": ({ library }, _, random, ttlMs) =>
    library.pause(short(random, ttlMs)),
  "the server is stopped": ({ server }, _, random, ttlMs) => server.pause(short(random, ttlMs)),
  "the worker is stopped": ({ worker }, _, random, ttlMs) => worker.pause(short(random, ttlMs)),
  "a worker is killed": ({ replaceWorker }) => replaceWorker("SIGKILL"),
  "a worker is drained": ({ replaceWorker }) => replaceWorker("SIGTERM"),
};
/** The one that lasts longer than a lease: the only one that may take leases. */
export const OUTAGE = "an outage of more than a ttl";
export const FAULT_KINDS: readonly string[] = [...Object.keys(FAULTS), OUTAGE];
const CUTS = /blackhole|held back|stopped|outage/;

/** Makes faults, each kind equally often. */
export class Faults {
  readonly records: FaultRecord[] = [];
  #deck: string[] = [];

  constructor(
    readonly site: FaultSite,
    readonly random: Random,
    readonly ttlMs: number,
  ) {}

  /** Until then, and what has begun to its end. */
  async run(untilMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && Date.now() < untilMs) {
      const { cuts } = await this.#one(this.#next());
      // What hung in one that cuts off takes half of its lease to find out: the next one comes later.
      const gapMs = this.ttlMs * (0.1 + 0.3 * this.random.float() + (cuts ? 1 : 0));
      await delay(gapMs, undefined, { signal }).catch(() => {});
    }
  }

  async outage(signal: AbortSignal): Promise<void> {
    const { library } = this.site.ways;
    await this.#recorded(OUTAGE, library, async () => {
      library.blackhole("toServer");
      library.blackhole("toClient");
      await delay(1.3 * this.ttlMs, undefined, { signal }).catch(() => {});
      library.heal();
    });
  }

  counts(): Record<string, number> {
    return Object.fromEntries(
      FAULT_KINDS.map((kind) => [kind, this.records.filter((one) => one.kind === kind).length]),
    );
  }

  #one(kind: string): Promise<FaultRecord> {
    const { library, server } = this.site.ways;
    const way = this.random.float() < 0.6 ? library : server;
    const fault = FAULTS[kind]!;
    return this.#recorded(kind, way, () => fault(this.site, way, this.random, this.ttlMs));
  }

  async #recorded(kind: string, way: TcpProxy, act: () => Promise<unknown>): Promise<FaultRecord> {
    const fromMs = Date.now();
    await act();
    const { library } = this.site.ways;
    const [, process] = /^the (library|server|worker)/.exec(kind) ?? [];
    const hit = process ?? (way === library ? "library" : "server");
    const cuts = CUTS.test(kind) && hit !== "worker" ? (hit as "library" | "server") : null;
    const record: FaultRecord = { kind, of: hit, fromMs, toMs: Date.now(), cuts };
    this.records.push(record);
    return record;
  }

  /** From a deck that is shuffled when it is used up. */
  #next(): string {
    if (this.#deck.length === 0) {
      this.#deck = Object.keys(FAULTS);
      for (let at = this.#deck.length - 1; at > 0; at -= 1) {
        const other = Math.floor(this.random.float() * (at + 1));
        [this.#deck[at], this.#deck[other]] = [this.#deck[other]!, this.#deck[at]!];
      }
    }
    return this.#deck.pop()!;
  }
}

/**
 * The way between processes. Each direction of each pair loses, delays (and so reorders) and repeats
 * messages on its own; a call whose answer is lost was applied, and its caller cannot know.
 *
 *   client ──request──▶ lost? late? twice? ──▶ server applies ──answer──▶ lost? late? ──▶ client
 *                                         └──▶ server down: refused, nothing applied
 */
import type { Timer } from "leasehold";
import type { Machine, Process } from "./machine.js";
import type { World } from "./world.js";

/** What happens to messages. Probabilities, and milliseconds of true time. */
export interface Weather {
  readonly loss: number;
  readonly duplicate: number;
  readonly fastestMs: number;
  readonly slowestMs: number;
  /** How many take up to `latestMs`. */
  readonly late: number;
  readonly latestMs: number;
}

export const CALM: Weather = {
  loss: 0,
  duplicate: 0,
  fastestMs: 0.2,
  slowestMs: 2,
  late: 0,
  latestMs: 2,
};

/** The server's process was not there: nothing was done. */
export const REFUSED = Symbol("refused");

/** One copy of a message, as watchers of the network see it. */
export interface Flight {
  /** From 1, in the order of sending. */
  readonly id: number;
  readonly from: string;
  readonly to: string;
  /** What it is, if its sender says so. */
  readonly about: unknown;
  readonly sentAtMs: number;
  readonly arrivesAtMs: number;
}

/** Is called when a message is sent or lost. It must not change anything. */
export interface NetworkWatcher {
  sent(flight: Flight): void;
  lost(message: Pick<Flight, "from" | "to" | "about">, why: "cut off" | "lost" | "dropped"): void;
}

/** Describes the messages of a call to watchers. */
export interface CallAbout<T> {
  readonly request: unknown;
  answer(value: T | typeof REFUSED): unknown;
}

interface Message {
  readonly from: string;
  readonly to: string;
  readonly about: unknown;
  arrive(): void;
}

export class Network {
  weather: Weather = CALM;
  watcher: NetworkWatcher | undefined;
  readonly #world: World;
  readonly #flying = new Map<number, { flight: Flight; message: Message; timer: Timer }>();
  #sent = 0;
  /** Ways that are cut, as "from>to". */
  readonly #cut = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Nothing gets from one to the other until mend(). */
  cut(from: string, to: string): void {
    this.#world.tell("network", `is cut from ${from} to ${to}`);
    this.#cut.add(`${from}>${to}`);
  }

  mend(): void {
    if (this.#cut.size > 0) this.#world.tell("network", "is whole again");
    this.#cut.clear();
  }

  /** Ends what cut() did from one to the other. */
  join(from: string, to: string): void {
    if (this.#cut.delete(`${from}>${to}`)) this.#world.tell("network", `joins ${from} to ${to}`);
  }

  isCut(from: string, to: string): boolean {
    return this.#cut.has(`${from}>${to}`);
  }

  /** What is on its way, in the order of sending. */
  get inFlight(): readonly Flight[] {
    return [...this.#flying.values()].map(({ flight }) => flight);
  }

  /** Loses one message that is on its way. @returns it; undefined if there is none of that id */
  drop(id: number): Flight | undefined {
    const flying = this.#flying.get(id);
    if (!flying) return undefined;
    flying.timer.cancel();
    this.#flying.delete(id);
    this.watcher?.lost(flying.message, "dropped");
    return flying.flight;
  }

  /** Lets one message come later than it would have. */
  delay(id: number, byMs: number): Flight | undefined {
    const flying = this.#flying.get(id);
    if (!flying) return undefined;
    flying.timer.cancel();
    const arrivesAtMs = flying.flight.arrivesAtMs + byMs;
    const delayMs = arrivesAtMs - this.#world.nowMs;
    return this.#fly(flying.message, { ...flying.flight, arrivesAtMs }, delayMs);
  }

  /** Lets a second copy of one message arrive, `afterMs` behind the first. */
  duplicate(id: number, afterMs: number): Flight | undefined {
    const flying = this.#flying.get(id);
    if (!flying) return undefined;
    const { flight, message } = flying;
    const arrivesAtMs = flight.arrivesAtMs + afterMs;
    const delayMs = arrivesAtMs - this.#world.nowMs;
    return this.#fly(message, { ...flight, id: ++this.#sent, arrivesAtMs }, delayMs);
  }

  /** Sends one message; `arrive` runs once for each copy that gets there. */
  send(from: string, to: string, arrive: () => void, about?: unknown): void {
    const world = this.#world;
    const message: Message = { from, to, about, arrive };
    if (this.#cut.has(`${from}>${to}`)) return this.#lose(message, "cut off");
    if (world.chance(this.weather.loss)) return this.#lose(message, "lost");
    this.#depart(message);
    if (!world.chance(this.weather.duplicate)) return;
    world.cover("message repeated");
    this.#depart(message);
  }

  /**
   * A call: `serve` runs once for each copy of the request that arrives while the server is up. The
   * promise resolves with the first answer that comes back to a client still alive, or never.
   */
  call<T>(
    client: Process,
    server: Machine,
    serve: () => Promise<T>,
    about?: CallAbout<T>,
  ): Promise<T | typeof REFUSED> {
    return new Promise((resolve) => {
      const answer = (value: T | typeof REFUSED) => {
        const arrive = () => client.deliver(() => resolve(value));
        this.send(server.name, client.name, arrive, about?.answer(value));
      };
      let served = false;
      const arrive = () => {
        const process = server.process;
        // A refusal of this copy must not hide that another copy was served.
        if (!process) return served ? undefined : answer(REFUSED);
        process.deliver(() => {
          served = true;
          serve().then(
            (value) => process.deliver(() => answer(value)),
            (error: unknown) => this.#world.violate("a store answers", String(error)),
          );
        });
      };
      this.send(client.name, server.name, arrive, about?.request);
    });
  }

  #lose(message: Message, why: "cut off" | "lost"): void {
    this.#world.cover(`message ${why}`);
    this.watcher?.lost(message, why);
  }

  #depart(message: Message): void {
    const { from, to, about } = message;
    const sentAtMs = this.#world.nowMs;
    const delayMs = this.#delayMs();
    const id = ++this.#sent;
    const flight: Flight = { id, from, to, about, sentAtMs, arrivesAtMs: sentAtMs + delayMs };
    this.#fly(message, flight, delayMs);
    this.watcher?.sent(flight);
  }

  #fly(message: Message, flight: Flight, delayMs: number): Flight {
    const timer = this.#world.after(delayMs, () => {
      this.#flying.delete(flight.id);
      message.arrive();
    });
    this.#flying.set(flight.id, { flight, message, timer });
    return flight;
  }

  #delayMs(): number {
    const world = this.#world;
    const { fastestMs, slowestMs, late, latestMs } = this.weather;
    if (!world.chance(late)) return world.between(fastestMs, slowestMs);
    world.cover("message late");
    return world.between(slowestMs, latestMs);
  }
}

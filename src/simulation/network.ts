/**
 * The way between processes. Each direction of each pair loses, delays (and so reorders) and repeats
 * messages on its own; a call whose answer is lost was applied, and its caller cannot know.
 *
 *   client ──request──▶ lost? late? twice? ──▶ server applies ──answer──▶ lost? late? ──▶ client
 *                                         └──▶ server down: refused, nothing applied
 */
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

export class Network {
  weather: Weather = CALM;
  readonly #world: World;
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

  /** Sends one message; `arrive` runs once for each copy that gets there. */
  send(from: string, to: string, arrive: () => void): void {
    const world = this.#world;
    if (this.#cut.has(`${from}>${to}`)) return world.cover("message cut off");
    if (world.chance(this.weather.loss)) return world.cover("message lost");
    world.after(this.#delayMs(), arrive);
    if (!world.chance(this.weather.duplicate)) return;
    world.cover("message repeated");
    world.after(this.#delayMs(), arrive);
  }

  /**
   * A call: `serve` runs once for each copy of the request that arrives while the server is up. The
   * promise resolves with the first answer that comes back to a client still alive, or never.
   */
  call<T>(client: Process, server: Machine, serve: () => Promise<T>): Promise<T | typeof REFUSED> {
    return new Promise((resolve) => {
      const answer = (value: T | typeof REFUSED) =>
        this.send(server.name, client.name, () => client.deliver(() => resolve(value)));
      let served = false;
      this.send(client.name, server.name, () => {
        const process = server.process;
        // A copy that finds nobody says nothing of the copy that was served.
        if (!process) return served ? undefined : answer(REFUSED);
        process.deliver(() => {
          served = true;
          serve().then(
            (value) => process.deliver(() => answer(value)),
            (error: unknown) => this.#world.violate("a store answers", String(error)),
          );
        });
      });
    });
  }

  #delayMs(): number {
    const world = this.#world;
    const { fastestMs, slowestMs, late, latestMs } = this.weather;
    if (!world.chance(late)) return world.between(fastestMs, slowestMs);
    world.cover("message late");
    return world.between(slowestMs, latestMs);
  }
}

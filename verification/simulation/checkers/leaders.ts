/** The leaders of an election: observers see their tokens grow, and each that dies has a successor in time. */
import type { Unsettled } from "../simulation.js";
import type { World } from "../world.js";

/** From a leader's death to the next term: its TTL, and the time that the others need to notice. */
export const LONGEST_VACANCY = { ttls: 1.5, ms: 2_500 };
const FEWEST_DEATHS = 2;

export class LeaderChecker {
  /** While nothing else failed. */
  deaths = 0;
  readonly #world: World;
  readonly #ttlMs: number;
  #vacantSinceMs: number | undefined;

  constructor(world: World, ttlMs: number) {
    this.#world = world;
    this.#ttlMs = ttlMs;
  }

  /** A term begins. */
  led(): void {
    this.#vacantSinceMs = undefined;
  }

  died(): void {
    this.deaths += 1;
    this.#vacantSinceMs = this.#world.nowMs;
    const died = this.deaths;
    this.#world.after(LONGEST_VACANCY.ttls * this.#ttlMs + LONGEST_VACANCY.ms, () => {
      if (this.#vacantSinceMs === undefined || this.deaths !== died) return;
      const vacantMs = Math.round(this.#world.nowMs - this.#vacantSinceMs);
      this.#world.violate("a leader within ttl and epsilon of a death", `none for ${vacantMs} ms`);
    });
  }

  /** @returns what an observer calls with each token that it sees; null while there has been no term */
  observer(): (token: number | null) => void {
    let last = 0;
    return (token) => {
      if ((token ?? 0) < last)
        this.#world.violate("tokens never go back", `${token} after ${last}`);
      last = token ?? last;
    };
  }

  unsettled(candidates: number): Unsettled[] {
    if (candidates === 1 || this.deaths >= FEWEST_DEATHS) return [];
    const what = `${this.deaths} leaders since everything healed`;
    return [{ property: "liveness", what }];
  }
}

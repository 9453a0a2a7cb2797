/** The fence, held against bookkeeping of its own: what it accepts is never older than what it has accepted. */
import { Register } from "../register.js";
import type { World } from "../world.js";

export class FenceChecker {
  readonly #world: World;
  readonly #fenced: Register;
  readonly #control: Register;
  #largest = 0;

  constructor(world: World, name: string, fenced = new Register(world, name, true)) {
    this.#world = world;
    this.#fenced = fenced;
    this.#control = new Register(world, name, false);
  }

  /** Late writers that the fence has refused. */
  get stale(): number {
    return this.#fenced.stale;
  }

  /** Late writers that wrote where there is no fence. */
  get unfenced(): number {
    return this.#control.stale;
  }

  /** To both registers. */
  write(token: number): void {
    if (!this.#fenced.write(token)) this.#world.cover("stale write refused");
    else if (token < this.#largest)
      this.#world.violate("fenced resource", `${token} accepted after ${this.#largest}`);
    else this.#largest = token;
    this.#control.write(token);
  }
}

/** Added up over several resources. */
export function fenceFigures(fences: Iterable<FenceChecker>) {
  let [stale, unfenced] = [0, 0];
  for (const fence of fences) {
    stale += fence.stale;
    unfenced += fence.unfenced;
  }
  return { stale, unfenced };
}

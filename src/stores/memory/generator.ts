import type { GeneratorState, GeneratorWanted } from "../../tasks/port.js";

const AT_FIRST: GeneratorWanted = { running: false, ratePerSecond: 1 };

/** What the generators of this process should be doing. */
export class MemoryGeneratorState implements GeneratorState {
  readonly #wanted = new Map<string, GeneratorWanted>();

  async read(namespace: string): Promise<GeneratorWanted> {
    return this.#wanted.get(namespace) ?? AT_FIRST;
  }

  async write(namespace: string, change: Partial<GeneratorWanted>): Promise<GeneratorWanted> {
    const wanted = { ...(await this.read(namespace)), ...change };
    this.#wanted.set(namespace, wanted);
    return wanted;
  }
}

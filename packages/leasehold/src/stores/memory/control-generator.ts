/** The generator's wanted state in this process's memory. */
import type { GeneratorState, GeneratorWanted } from "../../tasks/port.js";

const UNWRITTEN: GeneratorWanted = { running: false, ratePerSecond: 1 };

export class MemoryGeneratorState implements GeneratorState {
  readonly #wanted = new Map<string, GeneratorWanted>();

  async read(namespace: string): Promise<GeneratorWanted> {
    return { ...(this.#wanted.get(namespace) ?? UNWRITTEN) };
  }

  async write(namespace: string, change: Partial<GeneratorWanted>): Promise<GeneratorWanted> {
    const wanted = { ...(this.#wanted.get(namespace) ?? UNWRITTEN), ...change };
    this.#wanted.set(namespace, wanted);
    return { ...wanted };
  }
}

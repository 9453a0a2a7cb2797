import type { Env } from "../../env/index.js";
import type { StoreSource, Stores } from "../source.js";
import { MemoryControlState, memoryControl } from "./control.js";
import { MemoryGeneratorState } from "./control-generator.js";
import { MemoryGrantHistory } from "./control-history.js";
import { MemoryLeaseState, MemoryLeaseStore } from "./store.js";
import { MemoryTaskState, MemoryTaskStore } from "./tasks.js";

/** Everything of one name. Its clock is that of the env it was first opened with. */
class Memory implements StoreSource<Stores> {
  #contents:
    | {
        leases: MemoryLeaseState;
        tasks: MemoryTaskState;
        generator: MemoryGeneratorState;
        history: MemoryGrantHistory;
        control: MemoryControlState;
      }
    | undefined;

  async open(env: Env): Promise<Stores> {
    this.#contents ??= {
      leases: new MemoryLeaseState(env.clock),
      tasks: new MemoryTaskState(env),
      generator: new MemoryGeneratorState(),
      history: new MemoryGrantHistory(env.clock),
      control: new MemoryControlState(env.clock),
    };
    const leases = new MemoryLeaseStore(this.#contents.leases);
    const tasks = new MemoryTaskStore(this.#contents.tasks);
    return {
      leases,
      tasks,
      generator: this.#contents.generator,
      history: this.#contents.history,
      control: memoryControl(this.#contents.control, leases, tasks, this.#contents.generator),
      async close() {
        await Promise.all([leases.close(), tasks.close()]);
      },
    };
  }
}

const byName = new Map<string, Memory>();

/**
 * Leases and tasks in this process's memory, for tests, the simulation and programs of one process.
 * Nothing survives the process, tokens neither. Closing what was opened leaves the contents to
 * others who opened the same.
 * @param options.name shared by everybody in this process who gives it (`memory:NAME`); default, and
 *   `""`: the contents are known to this source alone
 */
export function memory(options: { name?: string } = {}): StoreSource<Stores> {
  const { name = "" } = options;
  if (name === "") return new Memory();
  let found = byName.get(name);
  if (!found) {
    found = new Memory();
    byName.set(name, found);
  }
  return found;
}

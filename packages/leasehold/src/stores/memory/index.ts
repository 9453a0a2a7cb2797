import { type Backing, memoryBacking } from "../../control/index.js";
import type { Env } from "../../env/index.js";
import { checkKnown, checkOptional } from "../../lease/index.js";
import type { StoreSource, Stores } from "../source.js";
import { MemoryControlState, memoryControl } from "./control.js";
import { MemoryGrantHistory } from "./control-history.js";
import { MemoryOnceStore, type OnceRecords } from "./once.js";
import { MemoryScheduleStore, type Schedules } from "./schedules.js";
import { MemoryLeaseState, MemoryLeaseStore } from "./store.js";
import { MemoryTaskState } from "./task-state.js";
import { MemoryTaskStore } from "./tasks.js";

/** All contents of one name. They use the clock of the env that first opened them. */
class Memory implements StoreSource<Stores> {
  #contents:
    | {
        leases: MemoryLeaseState;
        tasks: MemoryTaskState;
        history: MemoryGrantHistory;
        control: MemoryControlState;
        once: OnceRecords;
        schedules: Schedules;
        backing: Backing;
      }
    | undefined;

  async open(env: Env): Promise<Stores> {
    this.#contents ??= {
      leases: new MemoryLeaseState(env.clock),
      tasks: new MemoryTaskState(env),
      history: new MemoryGrantHistory(env.clock),
      control: new MemoryControlState(env.clock),
      once: new Map(),
      schedules: new Map(),
      backing: memoryBacking(),
    };
    const leases = new MemoryLeaseStore(this.#contents.leases);
    const tasks = new MemoryTaskStore(this.#contents.tasks);
    const { once: records, history, control, backing } = this.#contents;
    const once = new MemoryOnceStore(records, leases, this.#contents.leases);
    const schedules = new MemoryScheduleStore(
      this.#contents.schedules,
      this.#contents.tasks,
      tasks,
    );
    return {
      leases,
      tasks,
      once,
      schedules,
      history,
      backing,
      control: memoryControl(control, leases, tasks, once, schedules, backing),
      async close() {
        await Promise.all([leases.close(), tasks.close()]);
      },
    };
  }
}

const byName = new Map<string, Memory>();

/**
 * Leases and tasks in this process's memory, for tests, simulations and single-process programs.
 * Nothing survives the process, not even tokens. Closing a store keeps the contents for other stores
 * that opened the same source.
 * @param options.name shared by all callers in this process that pass it (`memory:NAME`). Default `""`:
 *   only this source sees the contents
 * @throws INVALID_OPTION
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { memory } from "leasehold/stores/memory";
 *
 * const leasehold = await connect(memory({ name: "tests" }));
 * await leasehold.close();
 * ```
 */
export function memory(options: { name?: string } = {}): StoreSource<Stores> {
  checkKnown(options, { name: true });
  checkOptional("string", options, ["name"]);
  const { name = "" } = options;
  if (name === "") return new Memory();
  let found = byName.get(name);
  if (!found) {
    found = new Memory();
    byName.set(name, found);
  }
  return found;
}

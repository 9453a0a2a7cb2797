/** Stores whose calls a test can stop, on the way to the store or on the way back, and count. */
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";

/** before: the store has not got the call; after: it has acted, and its answer is held back. */
export type Side = "before" | "after";

export class Gate {
  /** Calls that have not been answered. */
  inFlight = 0;
  /** Watches that have begun and not ended. */
  watches = 0;
  #shut: { readonly side: Side; readonly stopped: () => void } | null = null;
  readonly #held: (() => void)[] = [];
  readonly #listeners = new Set<() => void>();

  /** Stops all calls from now on. Resolves when there is one. */
  shut(side: Side): Promise<void> {
    return new Promise((stopped) => {
      this.#shut = { side, stopped };
    });
  }

  open(): void {
    this.#shut = null;
    for (const go of this.#held.splice(0)) go();
  }

  /** Calls the listener whenever a call has been answered, until the returned function is called. */
  onAnswer(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async call<T>(work: () => Promise<T>): Promise<T> {
    this.inFlight += 1;
    try {
      await this.#pass("before");
      const answer = await work();
      await this.#pass("after");
      return answer;
    } finally {
      this.inFlight -= 1;
      for (const listener of this.#listeners) listener();
    }
  }

  async *watch<T>(events: AsyncIterable<T>): AsyncGenerator<T> {
    this.watches += 1;
    try {
      yield* events;
    } finally {
      this.watches -= 1;
    }
  }

  async #pass(side: Side): Promise<void> {
    const shut = this.#shut;
    if (shut?.side !== side) return;
    shut.stopped();
    await new Promise<void>((go) => this.#held.push(go));
  }
}

/** The stores behind the gate. Calls within an operator action are part of that action. */
export function gated(stores: Stores, gate: Gate): Stores {
  return behind(stores, gate);
}

function behind<T extends object>(object: T, gate: Gate): T {
  return new Proxy(object, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (name === "capabilities" || name === "actors" || value === null) return value;
      if (typeof value === "object") return behind(value, gate);
      if (typeof value !== "function") return value;
      return (...given: unknown[]) => {
        const call = () => Reflect.apply(value, target, given) as unknown;
        if (name === "watch") return gate.watch(call() as AsyncIterable<unknown>);
        return name === "close" ? call() : gate.call(async () => call());
      };
    },
  });
}

/** What a program reaches behind the stores that it serves, for state of its own that belongs where the tasks are. */

/** The database, the memory or the server in which the stores keep tasks. */
export type Backing =
  | {
      readonly kind: "sql";
      /**
       * Runs one statement, which names the schema `leasehold` whatever its name in the database. The caller declares
       * the columns.
       */
      query<Row>(
        text: string,
        values?: readonly (string | number | boolean | null)[],
      ): Promise<readonly Row[]>;
    }
  | {
      readonly kind: "memory";
      /**
       * Replaces the value of a name, the same for all stores of this memory, by what `change` makes of it, and returns
       * that.
       */
      update<T>(name: string, change: (value: T | undefined) => T): Promise<T>;
    }
  | {
      readonly kind: "server";
      /** The body of the response. It throws if the namespace is not the one that the server serves. */
      read(namespace: string, path: string): Promise<unknown>;
      /** As `read`. The change must be one that may be repeated. */
      change(namespace: string, change: BackingChange): Promise<unknown>;
    };

/** A request that changes something behind a server. */
export interface BackingChange {
  readonly method: "POST" | "PUT";
  readonly path: string;
  /** As JSON text. */
  readonly body?: string;
}

/** Values in this process's memory. */
export function memoryBacking(): Backing {
  const values = new Map<string, unknown>();
  return {
    kind: "memory",
    async update<T>(name: string, change: (value: T | undefined) => T) {
      const value = change(values.get(name) as T | undefined);
      values.set(name, value);
      return value;
    },
  };
}

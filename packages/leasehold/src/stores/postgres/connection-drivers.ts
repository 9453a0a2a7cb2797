/**
 * The parts of pg and PGlite that the store uses, for clients that users pass in and those it creates.
 */

export interface Notice {
  /** The server routine that raised the error: unlike the message, it is not translated. */
  readonly routine?: string | undefined;
}

/** The parts of a pg client that the store needs; other drivers with the same interface fit. */
export interface PgClient {
  query(query: {
    name?: string;
    text: string;
    values: unknown[];
    types: { getTypeParser(oid: number): (value: string) => unknown };
  }): Promise<{ rows: unknown[] }>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "notice", listener: (notice: Notice) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  on(
    event: "notification",
    listener: (message: { channel: string; payload?: string | undefined }) => void,
  ): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "notice", listener: (notice: Notice) => void): unknown;
}

/** The parts of a client of a pool that the store needs: that of `pg` fits. */
export interface PgPoolClient extends PgClient {
  release(destroy?: boolean): void;
}
/** The parts of a pool that the store needs: `new pg.Pool(...)` fits. The store never closes it. */
export interface PgPool {
  connect(): Promise<PgPoolClient>;
  readonly options?: { readonly max?: number };
}

/** Queries that work inside and outside a PGlite transaction. */
export interface PgliteSession {
  query(
    text: string,
    values: unknown[],
    options: { parsers: { [oid: number]: (value: string) => unknown } },
  ): Promise<{ rows: unknown[] }>;
}
/**
 * The parts of PGlite that the store needs: `await PGlite.create()` fits. The store never closes it.
 */
export interface PgliteInstance extends PgliteSession {
  transaction<T>(work: (tx: PgliteSession) => Promise<T>): Promise<T>;
  listen(channel: string, onPayload: (payload: string) => void): Promise<() => Promise<void>>;
  readonly closed: boolean;
  /** Resolves when the database has started. */
  readonly waitReady?: Promise<void>;
}

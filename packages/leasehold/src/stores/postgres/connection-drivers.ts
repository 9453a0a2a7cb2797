/** What we need of the drivers, pg and PGlite: what users may give us, and what we make ourselves. */

export interface Notice {
  /** Of the server's code, where it was made: unlike the message it is not translated. */
  readonly routine?: string | undefined;
}

/** What we need of a client of pg, or of a driver that has its face. */
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
export interface PgPoolClient extends PgClient {
  release(destroy?: boolean): void;
}
/** What we need of your pool: `new pg.Pool(...)` fits. Never closed by us. */
export interface PgPool {
  connect(): Promise<PgPoolClient>;
  readonly options?: { readonly max?: number };
}

/** What can be asked within a transaction of PGlite, or without one. */
export interface PgliteSession {
  query(
    text: string,
    values: unknown[],
    options: { parsers: { [oid: number]: (value: string) => unknown } },
  ): Promise<{ rows: unknown[] }>;
}
/** What we need of your PGlite: `await PGlite.create()` fits. Never closed by us. */
export interface PgliteInstance extends PgliteSession {
  transaction<T>(work: (tx: PgliteSession) => Promise<T>): Promise<T>;
  listen(channel: string, onPayload: (payload: string) => void): Promise<() => Promise<void>>;
  readonly closed: boolean;
}

/** The errors of a SQL server, however deep the caller's library has wrapped them. */

/** What the server reported, in the fields of pg and PGlite. */
export interface SqlError {
  /** SQLSTATE, five characters. */
  readonly code: string;
  readonly message: string;
  readonly detail?: unknown;
}

interface Wrapped {
  readonly code?: unknown;
  readonly severity?: unknown;
  readonly message?: unknown;
  readonly detail?: unknown;
  readonly cause?: unknown;
  /** Of Prisma, which keeps the error of its driver here. */
  readonly meta?: { readonly driverAdapterError?: { readonly cause?: unknown } } | null;
  /** Of Prisma too, where it has a kind of its own for the error. */
  readonly originalCode?: unknown;
  readonly originalMessage?: unknown;
}

/** Finds the server's error in an error of a driver, or of a library around it; undefined if there is none. */
export function sqlErrorOf(error: unknown): SqlError | undefined {
  for (let at = error; typeof at === "object" && at !== null; ) {
    const wrapped = at as Wrapped;
    const { originalCode, originalMessage, severity, code, message, detail } = wrapped;
    if (typeof originalCode === "string") {
      return { code: originalCode, message: String(originalMessage), detail };
    }
    // The severity distinguishes SQLSTATEs from Node's codes, some of which also have five letters (EPIPE). Its text may
    // be translated, so only its presence counts.
    if (typeof code === "string" && severity !== undefined) {
      return { code, message: String(message), detail };
    }
    at = wrapped.cause ?? wrapped.meta?.driverAdapterError?.cause;
  }
  return undefined;
}

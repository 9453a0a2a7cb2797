/** The errors of a SQL server, however deep the caller's library has wrapped them. */
import { propertyOf, reasonOf } from "../env/index.js";

/** What the server reported, in the fields of pg and PGlite. */
export interface SqlError {
  /** SQLSTATE, five characters. */
  readonly code: string;
  readonly message: string;
  readonly detail?: unknown;
}

/** A chain of causes can be endless. */
const MOST_CAUSES = 20;

/** Finds the server's error in an error of a driver, or of a library around it; undefined if there is none. */
export function sqlErrorOf(error: unknown): SqlError | undefined {
  let at = error;
  for (let depth = 0; isObject(at) && depth < MOST_CAUSES; depth += 1) {
    const [code, detail] = [propertyOf(at, "code"), propertyOf(at, "detail")];
    // Prisma has a kind of its own for some errors.
    const originalCode = propertyOf(at, "originalCode");
    if (typeof originalCode === "string") {
      return { code: originalCode, message: reasonOf(propertyOf(at, "originalMessage")), detail };
    }
    // The severity distinguishes SQLSTATEs from Node's codes, some of which also have five letters (EPIPE). Its text may
    // be translated, so only its presence counts.
    if (typeof code === "string" && propertyOf(at, "severity") !== undefined) {
      return { code, message: reasonOf(propertyOf(at, "message")), detail };
    }
    // Prisma keeps the error of its driver in `meta`.
    const adapter = propertyOf(propertyOf(at, "meta"), "driverAdapterError");
    at = propertyOf(at, "cause") ?? propertyOf(adapter, "cause");
  }
  return undefined;
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

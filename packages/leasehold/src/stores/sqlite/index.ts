/** Leases in a SQLite file, for the processes of one machine. Experimental. */
import { resolve } from "node:path";
import { checkKnown, checkObject, InvalidOptionError } from "../../lease/index.js";
import type { LeaseStores, StoreSource } from "../source.js";
import { SqliteFile } from "./connection.js";
import { SqliteLeaseStore } from "./store.js";

const OPEN_TIMEOUT_MS = 5_000;

/** Options of `sqlite`. */
export interface SqliteOptions {
  /** The path of the file, which is made if it is missing. Its folder must exist. */
  readonly file: string;
}

/**
 * Leases in a SQLite file that several processes of one machine share. Experimental: its tables may change without a
 * migration. As a URL: `sqlite:FILE`. It needs Node 22.13 or later, or the package `libsql`.
 * @throws INVALID_OPTION; on opening: STORE_MISCONFIGURED, STORE_UNAVAILABLE
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { sqlite } from "leasehold/stores/sqlite";
 *
 * const leasehold = await connect(sqlite({ file: "leases.db" }));
 * await leasehold.close();
 * ```
 */
export function sqlite(options: SqliteOptions): StoreSource<LeaseStores> {
  checkObject("options", options);
  checkKnown(options, { file: true });
  const { file } = options;
  if (typeof file !== "string" || file === "" || file.startsWith(":") || file.includes("\0")) {
    throw new InvalidOptionError("file", "must be the path of a file, such as leases.db");
  }
  // A process may change its folder later.
  const path = resolve(file);
  return {
    async open(env, timeoutMs = OPEN_TIMEOUT_MS) {
      const opened = await SqliteFile.open(path, env, timeoutMs);
      const leases = new SqliteLeaseStore(opened);
      return { leases, waiters: (key) => leases.waiters(key), close: () => leases.close() };
    },
  };
}

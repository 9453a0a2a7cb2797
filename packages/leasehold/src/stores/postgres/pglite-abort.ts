/**
 * Stops PGlite for good when PostgreSQL aborts, as it does when its log cannot be written to a full disk.
 *
 *   PANIC ── abort() ──▶ onAbort ──▶ every later call throws
 *
 * A PostgreSQL server would restart. PGlite ignores the abort, and its next statement would wait in XLogFlush for
 * a write that never ends. It runs on this thread, so the process would not react to anything, signals included.
 */
import type { Extension } from "@electric-sql/pglite";

/** The parts of PGlite that run PostgreSQL. */
interface Running {
  readonly Module?: {
    _PostgresMainLoopOnce: () => void;
    /** PGlite calls it, unguarded, for each error that it ignores. */
    stackRestore: () => void;
    /** Writes a checkpoint when the database is closed. */
    _pgl_run_atexit_funcs: () => void;
  };
  execProtocolRawSync: () => Uint8Array;
}

/** @param onAbort called once */
export function stopsAtAbort(onAbort: () => void): Extension {
  const stopped = () => {
    throw new Error("PostgreSQL has aborted");
  };
  return {
    name: "stops at abort",
    setup: async (pglite, options: object) => {
      const db = pglite as unknown as Running;
      const stop = () => {
        // Ends the statement that aborted, if it has more to do.
        if (db.Module) {
          const { Module } = db;
          Module._PostgresMainLoopOnce = stopped;
          Module.stackRestore = stopped;
          Module._pgl_run_atexit_funcs = stopped;
        }
        db.execProtocolRawSync = stopped;
        onAbort();
      };
      return { emscriptenOpts: { ...options, onAbort: stop } };
    },
  };
}

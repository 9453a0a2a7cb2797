/**
 * One connection to a file, and its transactions: the calls of one moment share one.
 *
 *   calls ──▶ BEGIN IMMEDIATE ──▶ the work of each ──▶ COMMIT ──▶ answers
 *                 │ busy                                 │ busy: readers of a rollback journal
 *                 └── again after 0 to 2 ms, without blocking the event loop: SQLite's own busy handler does, and starves processes
 *
 * Failure cases:
 *   busy until the timeout of a call     that call: nothing was written
 *   a statement fails, a full disk       rolled back; the calls of the transaction: nothing was written
 *   a call fails by its own fault        rolled back; the other calls are tried again without it
 *   the commit fails                     rolled back; if that fails too, each call may have taken effect
 *   the process is killed                SQLite rolls the transaction back when the next one opens the file
 *   a process is stopped in between      all others wait; holders stop by their own clocks
 */
import { type Env, nextTurn, reasonOf, sleep } from "../../env/index.js";
import { ClosedError, LeaseholdError, StoreUnavailableError } from "../../lease/index.js";
import {
  codeOf,
  type Database,
  isSafeInWal,
  loadSqlite,
  type Statement,
  unusable,
} from "./connection-driver.js";
import { STATEMENTS, TABLES } from "./tables.js";

const LONGEST_PAUSE_MS = 2;
const BUSY: readonly unknown[] = ["BUSY", "LOCKED"];
/** What the user has to look at, by the code of the failure. */
const REMEDIES: Readonly<Record<string, string>> = {
  CANTOPEN: "its folder must exist, and this user must be allowed to write there",
  NOTADB: "it is no SQLite database; name another file",
  READONLY: "this user must be allowed to write it, and its folder",
  PERM: "this user must be allowed to write it, and its folder",
  CORRUPT: "it is damaged; restore it from a backup",
};

interface Job {
  readonly work: () => unknown;
  readonly deadlineMs: number;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

export class SqliteFile {
  readonly sql: Readonly<Record<keyof typeof STATEMENTS, Statement>>;
  #jobs: Job[] = [];
  #isRunning = false;
  #onIdle = () => {};
  #owesRollback = false;
  isInTransaction = false;

  private constructor(
    readonly file: string,
    readonly env: Env,
    readonly database: Database,
  ) {
    const prepared = Object.entries(STATEMENTS).map(([name, text]) => {
      return [name, database.prepare(text)] as const;
    });
    this.sql = Object.fromEntries(prepared) as Record<keyof typeof STATEMENTS, Statement>;
  }

  /** @throws STORE_MISCONFIGURED, STORE_UNAVAILABLE */
  static async open(file: string, env: Env, timeoutMs: number): Promise<SqliteFile> {
    const openFile = await loadSqlite();
    const deadlineMs = env.clock.monotonic() + timeoutMs;
    let database: Database | undefined;
    try {
      const opened = openFile(file);
      database = opened;
      const { version } = opened.prepare("SELECT sqlite_version() AS version").get() as {
        version: string;
      };
      opened.exec("PRAGMA busy_timeout = 0; PRAGMA synchronous = FULL");
      await untilFree(env, deadlineMs, () => {
        const isNew = opened.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() === undefined;
        // The mode belongs to the file: other processes may have another library.
        if (isNew && isSafeInWal(version)) opened.exec("PRAGMA journal_mode = WAL");
        const { journal_mode: mode } = opened.prepare("PRAGMA journal_mode").get() as {
          journal_mode: string;
        };
        if (mode === "wal" && !isSafeInWal(version)) {
          throw unusable(
            file,
            `it is in WAL mode, in which SQLite ${version} can lose what was committed; use a Node that has 3.51.3 or later, such as 24.22`,
          );
        }
      });
      await untilFree(env, deadlineMs, () => opened.exec("BEGIN IMMEDIATE"));
      opened.exec(TABLES);
      await untilFree(env, deadlineMs, () => opened.exec("COMMIT"));
      return new SqliteFile(file, env, opened);
    } catch (error) {
      database?.close();
      throw failureOf(file, error, "none");
    }
  }

  /**
   * Runs the work in a transaction, with that of other calls.
   * @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED: its outcome says whether it may have been committed
   */
  transact<T>(work: () => T, timeoutMs: number): Promise<T> {
    const deadlineMs = this.env.clock.monotonic() + timeoutMs;
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ work, deadlineMs, resolve, reject });
      if (this.#isRunning) return;
      this.#isRunning = true;
      void nextTurn().then(() => this.#run());
    });
  }

  async #run(): Promise<void> {
    while (this.#jobs.length > 0) {
      try {
        this.#rollBack();
        this.sql.begin.run();
      } catch (error) {
        this.#rejectLate(error);
        await pause(this.env);
        continue;
      }
      this.isInTransaction = true;
      const jobs = this.#jobs;
      this.#jobs = [];
      await this.#runAll(jobs);
      this.isInTransaction = false;
    }
    this.#isRunning = false;
    this.#onIdle();
  }

  /** Works before its commit, so a failure until then has written nothing. */
  async #runAll(jobs: readonly Job[]): Promise<void> {
    const results: unknown[] = [];
    for (const job of jobs) {
      try {
        results.push(job.work());
      } catch (error) {
        this.#owesRollback = true;
        // A failure of SQLite, such as a full disk, is that of all. Otherwise the others are tried again without it.
        const isTheirs = !(error instanceof LeaseholdError);
        for (const each of isTheirs ? jobs : [job])
          each.reject(failureOf(this.file, error, "none"));
        if (!isTheirs) this.#jobs.unshift(...jobs.filter((each) => each !== job));
        return;
      }
    }
    // No call waits for the patience of another one.
    const deadlineMs = Math.min(...jobs.map((job) => job.deadlineMs));
    try {
      await untilFree(this.env, deadlineMs, () => this.sql.commit.run());
    } catch (error) {
      this.#owesRollback = true;
      if (BUSY.includes(codeOf(error))) {
        this.#jobs.unshift(...jobs);
        this.#rejectLate(error);
        return;
      }
      try {
        this.#rollBack();
        for (const job of jobs) job.reject(failureOf(this.file, error, "none"));
      } catch {
        for (const job of jobs) job.reject(failureOf(this.file, error, "unknown"));
      }
      return;
    }
    for (const [at, job] of jobs.entries()) job.resolve(results[at]);
  }

  /** Takes back what a transaction that failed has written, before the next one. */
  #rollBack(): void {
    if (!this.#owesRollback) return;
    try {
      this.sql.rollback.run();
    } catch (error) {
      // SQLite has rolled back by itself.
      if (!/no transaction is active/.test(reasonOf(error))) throw error;
    }
    this.#owesRollback = false;
  }

  /** Calls whose time is over; all of them, if the file is not only busy. */
  #rejectLate(error: unknown): void {
    const nowMs = this.env.clock.monotonic();
    const isBusy = BUSY.includes(codeOf(error));
    const late = this.#jobs.filter(({ deadlineMs }) => !isBusy || deadlineMs <= nowMs);
    this.#jobs = this.#jobs.filter((job) => !late.includes(job));
    for (const job of late) job.reject(failureOf(this.file, error, "none"));
  }

  /** Calls that wait are rejected; a transaction that is under way ends first. */
  async close(): Promise<void> {
    const jobs = this.#jobs;
    this.#jobs = [];
    for (const job of jobs) job.reject(new ClosedError("the SQLite lease store"));
    if (this.#isRunning) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    this.database.close();
  }
}

async function untilFree(env: Env, deadlineMs: number, work: () => unknown): Promise<void> {
  for (;;) {
    try {
      work();
      return;
    } catch (error) {
      if (!BUSY.includes(codeOf(error)) || env.clock.monotonic() >= deadlineMs) throw error;
      await pause(env);
    }
  }
}

function pause({ clock, random }: Env): Promise<void> {
  return sleep(clock, random.float() * LONGEST_PAUSE_MS);
}

function failureOf(file: string, error: unknown, outcome: "none" | "unknown"): LeaseholdError {
  if (error instanceof LeaseholdError) return error;
  const code = codeOf(error);
  const remedy = code === null ? undefined : REMEDIES[code];
  if (remedy !== undefined) return unusable(file, `${reasonOf(error)}; ${remedy}`, error);
  return new StoreUnavailableError(`SQLite failed at ${file}: ${reasonOf(error)}`, {
    outcome,
    cause: error,
  });
}

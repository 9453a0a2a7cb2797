/** PostgreSQL in this process: PGlite over a directory that no other process has open. */
import type { PGlite } from "@electric-sql/pglite";
import type { Clock, Env } from "../../env/index.js";
import {
  type CallOptions,
  ClosedError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import { type Backend, CHANNEL } from "./backend.js";
import { lockDirectory } from "./directory-lock.js";
import { storeError } from "./failures.js";
import { DEFAULT_TIMEOUT_MS, decoderOf, type Parameter, type Session, type Sql } from "./query.js";

/** Types whose values PGlite would turn into something else than we say in query.ts. */
const OTHER_TYPES = [16, 17, 20, 21, 23, 114, 700, 701, 1082, 1114, 1184, 1700, 3802];
const OPTIONS = { parsers: Object.fromEntries(OTHER_TYPES.map((oid) => [oid, decoderOf(oid)])) };

/** @param directory made when missing; empty: in memory, gone with the process */
export async function pgliteBackend(directory: string, env: Env): Promise<Backend> {
  const { PGlite } = await import("@electric-sql/pglite").catch((error) => {
    throw new StoreMisconfiguredError(
      "the package @electric-sql/pglite is missing: npm install @electric-sql/pglite",
      error,
    );
  });
  const lock = directory === "" ? null : await lockDirectory(directory, env);
  const db = await PGlite.create(directory === "" ? {} : { dataDir: directory }).catch(
    async (error) => {
      await lock?.release();
      throw new StoreMisconfiguredError(`PGlite cannot open "${directory}": ${error}`, error);
    },
  );
  const sql = pgliteSql(db, env.clock);
  return {
    name: directory === "" ? "PGlite in memory" : `PGlite in ${directory}`,
    general: sql,
    control: sql,
    async listen(onPayload) {
      const stop = await db.listen(CHANNEL, onPayload);
      return { stop: () => stop() };
    },
    async close() {
      await db.close();
      await lock?.release();
    },
  };
}

function pgliteSql(db: PGlite, clock: Clock): Sql {
  return {
    query: (text, values, options) =>
      within(clock, options, () => sessionOf(db).query(text, values)),
    transaction: (work, options) =>
      within(clock, options, () => db.transaction((tx) => work(sessionOf(tx))) as Promise<never>),
  };

  function sessionOf(queryable: Pick<PGlite, "query">): Session {
    return {
      async query<Row>(text: string, values: readonly Parameter[] = []) {
        if (db.closed) throw new ClosedError("the PGlite database");
        return (await queryable.query<Row>(text, [...values], OPTIONS)).rows;
      },
    };
  }
}

/** What has begun in this process goes on after a timeout: its outcome is then unknown. */
function within<T>(
  clock: Clock,
  { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
  work: () => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = clock.timer(timeoutMs, () =>
      reject(
        new StoreUnavailableError(`PGlite: no answer within ${Math.round(timeoutMs)} ms`, {
          outcome: "unknown",
        }),
      ),
    );
    work()
      .then(resolve, (error) => reject(storeError(error, true)))
      .finally(() => timer.cancel());
  });
}

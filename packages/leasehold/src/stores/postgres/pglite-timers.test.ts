import { PGlite } from "@electric-sql/pglite";
import { expect, it } from "vitest";
import { type Clock, systemClock } from "../../env/index.js";
import { backgroundTimers } from "./pglite-timers.js";

/** PostgreSQL writes its statistics after the first statement, and then at most every 10 s. */
async function write(db: PGlite): Promise<void> {
  await db.exec("CREATE TABLE IF NOT EXISTS t (n int)");
  for (let n = 0; n < 3; n += 1) await db.query("INSERT INTO t VALUES ($1)", [n]);
}

// One database for both, because to make one takes a second of processor time.
it("PostgreSQL's timers hold nothing open, touch no global, reach it when due, and end with it", async () => {
  const own = globalThis.setTimeout;
  const pending = new Set<() => void>();
  const clock: Clock = {
    ...systemClock,
    timer(_, callback, options) {
      expect(options).toEqual({ background: true });
      pending.add(callback);
      return { cancel: () => void pending.delete(callback) };
    },
  };
  const db = await PGlite.create({ extensions: { backgroundTimers: backgroundTimers(clock) } });
  await write(db);
  expect(globalThis.setTimeout).toBe(own);
  expect(pending.size).toBe(1);
  for (const callback of Array.from(pending)) {
    pending.delete(callback);
    callback();
  }
  await write(db);
  expect((await db.query("SELECT count(*)::int AS n FROM t")).rows).toEqual([{ n: 6 }]);
  expect(pending.size).toBe(1);
  await db.close();
  expect(pending.size).toBe(0);
});

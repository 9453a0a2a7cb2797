import { PGlite } from "@electric-sql/pglite";
import { expect, it, vi } from "vitest";
import { type Clock, systemClock } from "../../env/index.js";
import { backgroundTimers } from "./pglite-timers.js";

const open = (clock?: Clock) =>
  PGlite.create({ extensions: { backgroundTimers: backgroundTimers(clock) } });

/** PostgreSQL writes its statistics after the first statement, and then at most every 10 s. */
async function write(db: PGlite): Promise<void> {
  await db.exec("CREATE TABLE IF NOT EXISTS t (n int)");
  for (let n = 0; n < 3; n += 1) await db.query("INSERT INTO t VALUES ($1)", [n]);
}

it("PostgreSQL's timers hold nothing open, touch no global, and end with the database", async () => {
  const setTimer = vi.spyOn(globalThis, "setTimeout");
  const own = globalThis.setTimeout;
  const pending = new Set<object>();
  const clock: Clock = {
    ...systemClock,
    timer(delayMs, callback, options) {
      expect(options).toEqual({ background: true });
      const timer = systemClock.timer(delayMs, callback, options);
      pending.add(timer);
      const cancel = () => {
        pending.delete(timer);
        timer.cancel();
      };
      return { cancel };
    },
  };
  const db = await open(clock);
  await write(db);
  expect(pending.size).toBe(1);
  for (const { value } of setTimer.mock.results.slice(-1)) expect(value.hasRef()).toBe(false);
  expect(globalThis.setTimeout).toBe(own);
  await db.close();
  expect(pending.size).toBe(0);
  setTimer.mockRestore();
});

it("a timer that is due reaches PostgreSQL, which goes on", async () => {
  let due = 0;
  const clock: Clock = {
    ...systemClock,
    timer: (_, callback) =>
      systemClock.timer(1, () => {
        callback();
        due += 1;
      }),
  };
  const db = await open(clock);
  await write(db);
  await vi.waitFor(() => expect(due).toBeGreaterThan(0));
  await write(db);
  expect((await db.query("SELECT count(*)::int AS n FROM t")).rows).toEqual([{ n: 6 }]);
  await db.close();
});

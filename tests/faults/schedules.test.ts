/**
 * A fire time makes one task, with processes that tick and are killed and paused: on PostgreSQL, in real time. The tasks are
 * deleted at once, so that nothing but the row of the schedule can tell what was made. With TEST_FULL=1: 500 fire times.
 * @module-tag safety
 */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import {
  describePostgres,
  type PostgresServer,
  startPostgres,
} from "../support/engines/postgres.js";
import { compile } from "../support/processes/compile.js";
import { Child, endAll } from "../support/processes/processes.js";
import type { TickerSettings } from "../support/processes/schedule-ticker.js";
import { repetitions } from "../support/runner/full.js";

const PROCESSES = 3;
const FIRE_TIMES = repetitions({ usual: 60, full: 500 });
const EVERY_MS = 200;
const TEST_TIMEOUT_MS = repetitions({ usual: 120_000, full: 900_000 });

describePostgres("a schedule, among processes that are killed and paused", () => {
  let database: PostgresServer;
  let program: Awaited<ReturnType<typeof compile>>;
  beforeAll(async () => {
    database = await startPostgres();
    program = await compile(new URL("../support/processes/schedule-ticker.ts", import.meta.url));
  });
  afterEach(() => endAll());
  afterAll(async () => {
    await program.remove();
    await database.remove();
  });

  it(
    "makes one task at each fire time, and leaves none out",
    async () => {
      const admin = new pg.Client({ connectionString: database.url });
      await admin.connect();
      await (await connect(database.url)).close();
      // Without a key, so that a second task of a fire time would be seen.
      await admin.query("CREATE TABLE made (id text, seq bigint)");
      await admin.query(`CREATE FUNCTION note_made() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO made VALUES (NEW.id, NEW.seq); RETURN NULL; END $$`);
      await admin.query(
        "CREATE TRIGGER made AFTER INSERT ON leasehold.task FOR EACH ROW EXECUTE FUNCTION note_made()",
      );
      const settings: TickerSettings = { url: database.url, everyMs: EVERY_MS };
      const start = () => new Child(process.execPath, [program.path, JSON.stringify(settings)]);
      const fleet = Array.from({ length: PROCESSES }, start);
      const made = async () =>
        (await admin.query<{ n: number }>("SELECT count(*)::int AS n FROM made")).rows[0]?.n ?? 0;
      for (let round = 0, next = 5; (await made()) < FIRE_TIMES; round += 1, next += 5) {
        const at = round % PROCESSES;
        const stopped = round % 2 === 0 ? undefined : fleet[at];
        await stopped?.stop();
        if (!stopped) {
          await fleet[at]?.end("SIGKILL");
          fleet[at] = start();
        }
        while ((await made()) < Math.min(next, FIRE_TIMES)) {
          await admin.query("DELETE FROM leasehold.task");
          await delay(20);
        }
        stopped?.cont();
      }
      for (const child of fleet) await child.end("SIGKILL");
      const { rows } = await admin.query<{ id: string }>("SELECT id FROM made ORDER BY seq");
      const fireTimes = rows.map(({ id }) => Date.parse(id.slice("beat@".length)));
      const [first = 0] = fireTimes;
      expect(fireTimes).toEqual(fireTimes.map((_, n) => first + n * EVERY_MS));
      await admin.end();
    },
    TEST_TIMEOUT_MS,
  );
});

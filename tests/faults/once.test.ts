/**
 * The work of a key succeeds at most once, with processes that are killed and paused in the middle of it: on PostgreSQL, with the
 * effect in the database that keeps the records. With TEST_FULL=1: 20 processes and 500 keys; with TEST_PROCESSES=200 so many.
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
import type { CallerSettings } from "../support/processes/once-caller.js";
import { Child, endAll } from "../support/processes/processes.js";
import { repetitions } from "../support/runner/full.js";

const PROCESSES = Number(process.env["TEST_PROCESSES"] ?? repetitions({ usual: 4, full: 20 }));
const KEYS = repetitions({ usual: 50, full: 500 });
/** Every other one is stopped in the middle of its work instead, and goes on when another one has done it. */
const KILLED = repetitions({ usual: 6, full: 40 });
const CALLERS = 10;
const TTL_MS = 600;
const GATE = 17;
const TEST_TIMEOUT_MS = Math.max(repetitions({ usual: 120_000, full: 900_000 }), 5_000 * PROCESSES);

describePostgres("once, among processes that are killed and paused", () => {
  let database: PostgresServer;
  let program: Awaited<ReturnType<typeof compile>>;
  beforeAll(async () => {
    database = await startPostgres({ settings: { max_connections: 20 + 16 * PROCESSES } });
    program = await compile(new URL("../support/processes/once-caller.ts", import.meta.url));
  });
  afterEach(() => endAll());
  afterAll(async () => {
    await program.remove();
    await database.remove();
  });

  it(
    "records each key once, with its effect exactly once, and leaves no caller waiting",
    async () => {
      const admin = new pg.Client({ connectionString: database.url });
      await admin.connect();
      // Without a key of its own, so that a second effect would be seen.
      await admin.query("CREATE TABLE effect (key text, by text)");
      const observer = await connect(database.url);
      let started = 0;
      const start = () => {
        const settings: CallerSettings = {
          name: `caller-${started++}`,
          url: database.url,
          keys: KEYS,
          callers: CALLERS,
          ttlMs: TTL_MS,
          gate: GATE,
        };
        const child = new Child(process.execPath, [program.path, JSON.stringify(settings)]);
        return { name: settings.name, child };
      };
      const fleet = Array.from({ length: PROCESSES }, start);
      const effects = async () =>
        (await admin.query<{ n: number }>("SELECT count(*)::int AS n FROM effect")).rows[0]?.n ?? 0;
      /** A process that waits at the gate in the middle of its work; none if all is done. */
      const someoneAtWork = async () => {
        while ((await effects()) < KEYS) {
          const { rows } = await admin.query<{ name: string }>(
            `SELECT application_name AS name FROM pg_stat_activity
             WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'`,
          );
          const found = fleet.find(({ name }) => rows.some((row) => row.name === name));
          if (found) return found;
          await delay(5);
        }
        return undefined;
      };
      const heldBy = async (name: string) => {
        const { items } = await observer.list({ prefix: "once:", states: ["live"], limit: KEYS });
        const held = items.filter(({ holder }) => holder === name);
        return held.map(({ resource }) => resource.slice("once:".length));
      };
      const doneOf = async (wanted: readonly string[]) =>
        (
          await admin.query<{ n: number }>(
            "SELECT count(*)::int AS n FROM leasehold.once WHERE key = ANY ($1)",
            [wanted],
          )
        ).rows[0]?.n ?? 0;
      let overtaken = 0;
      for (let killed = 0; killed < KILLED; killed += 1) {
        // Spread over the work: the next one dies when so much of it is done.
        while ((await effects()) < Math.floor((killed * KEYS) / (KILLED + 1))) await delay(5);
        const at = killed % PROCESSES;
        if (killed % 2 === 0) {
          await fleet[at]?.child.end("SIGKILL");
          fleet[at] = start();
          continue;
        }
        await admin.query("SELECT pg_advisory_lock($1)", [GATE]);
        const atWork = await someoneAtWork();
        await atWork?.child.stop();
        const held = atWork ? await heldBy(atWork.name) : [];
        await admin.query("SELECT pg_advisory_unlock($1)", [GATE]);
        while ((await doneOf(held)) < held.length) await delay(5);
        overtaken += held.length;
        atWork?.child.cont();
      }
      // Their work comes late: another process has recorded it.
      expect(overtaken).toBeGreaterThan(0);
      for (const { child } of fleet) {
        const { code, stderr } = await child.ended;
        expect([code, stderr]).toEqual([0, ""]);
      }
      const { rows } = await admin.query<{ key: string; n: number }>(
        "SELECT key, count(*)::int AS n FROM effect GROUP BY key",
      );
      expect(rows).toHaveLength(KEYS);
      expect(rows.filter(({ n }) => n !== 1)).toEqual([]);
      const { rows: agreed } = await admin.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM effect e JOIN leasehold.once o ON o.key = e.key
           AND o.value = to_json(e.by)::text AND o.holder = e.by`,
      );
      expect(agreed[0]?.n).toBe(KEYS);
      await observer.close();
      await admin.end();
    },
    TEST_TIMEOUT_MS,
  );
});

/**
 * Each branch of the statements of PostgreSQL that claim tasks from several queues, list, and keep what
 * operators do: what fits and what does not fit, beside each other.
 */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AuditQuery } from "../../packages/leasehold/src/control/index.js";
import {
  newLeaseId,
  systemClock,
  systemEnv,
  systemRandom,
  taskIds,
} from "../../packages/leasehold/src/env/index.js";
import type { LeaseState } from "../../packages/leasehold/src/lease/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import type {
  ClaimRequest,
  NewTask,
  TaskLeaseQuery,
} from "../../packages/leasehold/src/tasks/port.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const newTaskId = taskIds(systemClock, systemRandom);
const OLD = "now() - interval '1 s'";

describePostgres("in PostgreSQL", () => {
  let fresh: FreshDatabase;
  let database: PostgresDatabase;
  let admin: pg.Client;
  beforeAll(async () => {
    fresh = await freshDatabase();
    database = await openPostgres({ url: fresh.url }, systemEnv);
    admin = new pg.Client({ connectionString: fresh.url });
    await admin.connect();
  });
  afterAll(async () => {
    await admin.end();
    await database.close();
    await fresh.drop();
  });

  describe("a claim from several queues", () => {
    const claimOf = (namespace: string, change: Partial<ClaimRequest> = {}): ClaimRequest => ({
      namespace,
      claimId: newLeaseId(systemRandom),
      holder: "h",
      queues: ["a", "b"],
      kinds: null,
      limit: 10,
      ttlMs: 60_000,
      ...change,
    });
    async function enqueue(namespace: string, changes: readonly Partial<NewTask>[]) {
      const tasks = changes.map((change) =>
        newTaskOf({ namespace, id: newTaskId() }, { queue: "a", ...change }),
      );
      await database.tasks.enqueue(tasks);
      return tasks.map(({ id }) => id);
    }
    const claim = async (request: ClaimRequest) => {
      const outcome = await database.tasks.claim(request);
      if (outcome.status !== "claimed") throw new Error(outcome.status);
      return outcome.tasks.map(({ id }) => id);
    };

    it("takes the due tasks of its kinds, by priority and not by queue, and no others", async () => {
      const namespace = "kinds";
      const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
      const [first, third, second, , , , taken] = await enqueue(namespace, [
        { priority: 1 },
        { priority: 3 },
        { priority: 2, queue: "b" },
        { queue: "c" },
        { kind: "other" },
        { scheduledAt: inAnHour, queue: "b" },
        { priority: 0, kind: "taken" },
      ]);
      expect(await claim(claimOf(namespace, { kinds: ["taken"] }))).toEqual([taken]);
      const wanted = [first, second, third];
      expect(await claim(claimOf(namespace, { kinds: ["kind", "taken"] }))).toEqual(wanted);
      const rest = await claim(claimOf(namespace, { queues: ["a", "b", "c"] }));
      expect(rest).toHaveLength(2);
    });

    it("returns its own tasks when it is repeated, as far as it still holds them", async () => {
      const namespace = "repeated";
      const [held, done, expired, retaken, added] = await enqueue(
        namespace,
        Array.from({ length: 4 }, (_, priority) => ({ priority })),
      );
      expect(added).toBe(undefined);
      const request = claimOf(namespace);
      const outcome = await database.tasks.claim(request);
      if (outcome.status !== "claimed") throw new Error(outcome.status);
      expect(outcome.tasks.map(({ id }) => id)).toEqual([held, done, expired, retaken]);
      const second = outcome.tasks[1]!;
      await database.tasks.complete([
        { namespace, id: done!, leaseId: second.leaseId, token: second.token, output: null },
      ]);
      const expire = `UPDATE leasehold.task SET expires_at = ${OLD} WHERE id = $1`;
      for (const id of [expired, retaken]) await admin.query(expire, [id]);
      await admin.query("UPDATE leasehold.task SET state = 'pending' WHERE id = $1", [retaken]);
      expect(await claim(claimOf(namespace))).toEqual([retaken]);
      await enqueue(namespace, [{}]);
      expect(await claim(request)).toEqual([held]);
    });
  });

  it("grants on tasks are listed by state, by heartbeat and after a cursor", async () => {
    const namespace = "grants";
    const count = 40;
    await admin.query(
      `INSERT INTO leasehold.task (namespace, id, seq, state, kind, queue, priority, scheduled_at, data,
         max_attempts, crash_limit, backoff_ms, max_backoff_ms, created_at, attempt, token, lease_id,
         holder, ttl_ms, started_at, heartbeat_at, expires_at)
       SELECT $1, md5(g::text), g, CASE WHEN g % 5 = 0 THEN 'done' ELSE 'running' END, 'kind', 'queue',
         0, now(), 'null', 1, 1, 1, 1, now(), 2, g, repeat('a', 32), 'holder', 1000, now(),
         CASE WHEN g % 2 = 0 THEN now() END,
         CASE WHEN g % 3 = 0 THEN ${OLD} ELSE now() + interval '1 hour' END
       FROM generate_series(1, $2::int) g`,
      [namespace, count],
    );
    await admin.query(
      `INSERT INTO leasehold.attempt (namespace, task_id, task_seq, attempt, holder, grant_id, token, ttl_ms,
         started_at, heartbeat_at, ended_at, result)
       SELECT $1, md5(g::text), g, 1, 'holder', g::text, g, CASE WHEN g % 7 > 0 THEN 1000 END, now(),
         CASE WHEN g % 2 = 1 THEN now() END, now(),
         (ARRAY['done', 'failed', 'returned', 'expired', 'cancelled'])[1 + g % 5]
       FROM generate_series(1, $2::int) g`,
      [namespace, count],
    );
    const list = async (query: Partial<TaskLeaseQuery>) => {
      const found: { readonly resource: string; readonly state: LeaseState }[] = [];
      let cursor: string | undefined;
      do {
        const more = cursor === undefined ? {} : { cursor };
        const page = await database.tasks.leases({ namespace, limit: 7, ...query, ...more });
        found.push(
          ...page.items.map((one) => ({
            ...one,
            id: `${one.resource} ${one.token} ${one.renewedAt}`,
          })),
        );
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
      return found as ((typeof found)[number] & {
        readonly renewedAt: string | null;
        readonly id: string;
      })[];
    };
    const all = await list({});
    expect(all).toHaveLength(count + (count * 4) / 5);
    const STATES: readonly LeaseState[] = ["live", "expired", "released", "revoked"];
    for (let chosen = 1; chosen < 2 ** STATES.length; chosen += 1) {
      const states = STATES.filter((_, at) => (chosen & (1 << at)) !== 0);
      for (const renewedOnly of [false, true]) {
        const wanted = all.filter(
          ({ state, renewedAt }) => states.includes(state) && (!renewedOnly || renewedAt !== null),
        );
        const found = await list({ states, renewedOnly });
        expect(
          found.map(({ id }) => id),
          `${states.join()} ${renewedOnly}`,
        ).toEqual(wanted.map(({ id }) => id));
        expect(wanted.length).toBeGreaterThan(0);
      }
    }
  });

  it("tasks are listed by queue, kind, state and cursor, each of them alone and all together", async () => {
    const namespace = "list";
    const made = ["q", "r"].flatMap((queue) =>
      ["k", "l"].flatMap((kind) => [1, 2].map(() => ({ queue, kind }))),
    );
    const tasks = made.map((one) => newTaskOf({ namespace, id: newTaskId() }, one));
    await database.tasks.enqueue(tasks);
    await database.tasks.cancel(tasks.slice(0, 2));
    const newestFirst = tasks.toReversed();
    for (const queue of [undefined, "q"]) {
      for (const kind of [undefined, "k"]) {
        for (const states of [undefined, ["cancelled"], ["pending"]] as const) {
          const wanted = newestFirst
            .filter(
              (task) =>
                (queue ?? task.queue) === task.queue &&
                (kind ?? task.kind) === task.kind &&
                (states ?? [tasks.indexOf(task) < 2 ? "cancelled" : "pending"])[0] ===
                  (tasks.indexOf(task) < 2 ? "cancelled" : "pending"),
            )
            .map(({ id }) => id);
          const query = {
            namespace,
            ...(queue && { queue }),
            ...(kind && { kind }),
            ...(states && { states }),
          };
          const first = await database.tasks.list({ ...query, limit: 1 });
          expect(first.items.map(({ id }) => id)).toEqual(wanted.slice(0, 1));
          if (first.nextCursor === null) continue;
          const rest = await database.tasks.list({ ...query, cursor: first.nextCursor });
          expect(rest.items.map(({ id }) => id)).toEqual(wanted.slice(1));
        }
      }
    }
  });

  it("the audit is listed by namespace, target, actions and cursor, each of them alone and all together", async () => {
    const { audit } = database.control;
    const entries = ["a", "b"].flatMap((namespace) =>
      ["x", "y"].flatMap((target) =>
        ["lease.revoke", "key.create", "pause.set"].map((action) => ({
          namespace,
          target,
          action,
          actor: "cli:me",
          reason: null,
          details: "{}",
          phase: "done" as const,
        })),
      ),
    );
    const added = await audit.append(entries);
    const newestFirst = added.toReversed();
    const actions = ["lease.revoke", "pause.set"];
    for (const namespace of [null, "a"]) {
      for (const target of [undefined, "y"]) {
        for (const wantedActions of [undefined, actions]) {
          const query = {
            namespace,
            ...(target !== undefined && { target }),
            ...(wantedActions && { actions: wantedActions }),
          };
          const wanted = newestFirst.filter(
            (entry) =>
              (namespace === null || entry.namespace === namespace) &&
              (target === undefined || entry.target === target) &&
              (wantedActions?.includes(entry.action) ?? true),
          );
          const first = await audit.list({ ...query, limit: 1 });
          expect(first.items).toEqual(wanted.slice(0, 1));
          const rest = await audit.list({ ...query, cursor: first.nextCursor! });
          expect(rest.items).toEqual(wanted.slice(1));
        }
      }
    }
  });

  it("a page of the audit by an action that is rare passes over a bounded number of entries", async () => {
    const { audit } = database.control;
    await admin.query(
      `INSERT INTO leasehold.audit (seq, at, namespace, actor, action, target, phase, details, hash)
       SELECT 1000000 + g, '', CASE WHEN g = 3 THEN 'small' ELSE 'large' END, '', CASE WHEN g IN (2, 24990) THEN 'key.create' ELSE 'lease.revoke' END, 't', 'done', '{}', ''
       FROM generate_series(1, 25000) g`,
    );
    const pagesOf = async (query: Omit<AuditQuery, "limit" | "cursor">) => {
      const pages: number[][] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await audit.list({ ...query, limit: 5, ...(cursor && { cursor }) });
        pages.push(page.items.map(({ seq }) => seq - 1_000_000));
        cursor = page.nextCursor;
      }
      return pages;
    };
    const large = { namespace: "large", target: "t" };
    expect(await pagesOf({ ...large, actions: ["key.create"] })).toEqual([[24_990], [], [2]]);
    expect(await pagesOf({ ...large, actions: ["limits.set"] })).toEqual([[], [], []]);
    const few = { namespace: "small", actions: ["lease.revoke"] };
    expect(await pagesOf(few)).toEqual([[3]]);
    expect(await pagesOf({ namespace: "small" })).toEqual([[3]]);
    expect(await pagesOf({ namespace: "empty" })).toEqual([[]]);
    const [latest] = await pagesOf({ namespace: null, actions: ["lease.revoke"] });
    expect(latest).toEqual([25_000, 24_999, 24_998, 24_997, 24_996]);
    const whole = await audit.list({ ...large, limit: 30_000 });
    expect([whole.items.length, whole.nextCursor]).toEqual([24_999, null]);
  });

  it("there are API keys while one has not ended, and one that has expired is not revoked", async () => {
    const { control } = database;
    const insert = `INSERT INTO leasehold.api_key (id, namespace, name, role, prefixes, digest,
      created_at, expires_at) VALUES ($1, 'keys', 'n', 'viewer', '[]', 'd', now(), `;
    const revoke = (id: string) =>
      control.actors.keys.revoke("keys", id).then((key) => key && key.revoked);
    expect(await control.keys.any()).toBe(false);
    await admin.query(`${insert}${OLD})`, ["expired"]);
    expect(await control.keys.any()).toBe(false);
    expect(await revoke("expired")).toBe(false);
    await admin.query(`${insert}now() + interval '1 hour')`, ["temporary"]);
    expect(await control.keys.any()).toBe(true);
    expect(await revoke("temporary")).toBe(true);
    expect(await control.keys.any()).toBe(false);
    await admin.query(`${insert}NULL)`, ["lasting"]);
    expect(await control.keys.any()).toBe(true);
    expect(await revoke("lasting")).toBe(true);
    expect(await revoke("none")).toBe(null);
    expect(await control.keys.any()).toBe(false);
  });

  it("waiters that have expired are collected with the leases, and no others", async () => {
    const { leases } = database;
    const request = (holder: string, queueMs = 0) => ({
      namespace: "waiters",
      resource: "r",
      holder,
      leaseId: newLeaseId(systemRandom),
      ttlMs: 60_000,
      ...(queueMs > 0 && { queueMs }),
    });
    await leases.acquire([request("holder")]);
    await leases.acquire([request("dead", 60_000), request("alive", 60_000)]);
    await admin.query(`UPDATE leasehold.waiter SET expires_at = ${OLD} WHERE holder = 'dead'`);
    await leases.collect(60_000);
    const { rows } = await admin.query("SELECT holder FROM leasehold.waiter");
    expect(rows).toEqual([{ holder: "alive" }]);
  });

  it("grants of the history are collected by their end, or by their record where they had none", async () => {
    const key = { namespace: "history", resource: "r" };
    const grant = {
      ...key,
      holder: "h",
      token: 1,
      state: "revoked" as const,
      ttlMs: 1,
      remainingMs: 0,
      grantedAt: null,
      renewedAt: null,
      metadata: null,
    };
    const at = (ms: number) => new Date(Date.now() - ms).toISOString();
    await database.history.append([
      { ...grant, grantId: "old", expiresAt: at(7_200_000) },
      { ...grant, grantId: "new", expiresAt: at(0) },
      { ...grant, grantId: "endless", expiresAt: null },
      { ...grant, grantId: "old and endless", expiresAt: null },
    ]);
    await admin.query(
      "UPDATE leasehold.grant_history SET recorded_at = now() - interval '2 h' WHERE grant_id = 'old and endless'",
    );
    expect(await database.history.collect(3_600_000)).toBe(2);
    const left = ["old", "new", "endless", "old and endless"].map((grantId) =>
      database.history.find(key, grantId),
    );
    const found = await Promise.all(left);
    expect(found.map((one) => one?.grantId ?? null)).toEqual([null, "new", "endless", null]);
  });

  it("leases are listed by their holder, whose name is no beginning of another's", async () => {
    const holders = ["b", "a", "ab", "A", "a"];
    const requests = holders.map((holder, at) => ({
      namespace: "holders",
      resource: `r${at}`,
      holder,
      leaseId: newLeaseId(systemRandom),
      ttlMs: 60_000,
    }));
    await database.leases.acquire(requests);
    const listed = async (holder: string) => {
      const { items } = await database.leases.list({ namespace: "holders", holder });
      return items.map(({ resource }) => resource);
    };
    expect(await listed("a")).toEqual(["r1", "r4"]);
    expect(await listed("ab")).toEqual(["r2"]);
    expect(await listed("")).toEqual([]);
  });

  it("no statement of a collection deletes more than a thousand rows", async () => {
    const tables = ["lease", "grant_history", "api_key"];
    await admin.query("CREATE TABLE deletions (what text, rows int)");
    await admin.query(`CREATE FUNCTION note_deletion() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO public.deletions SELECT TG_TABLE_NAME, count(*) FROM gone; RETURN NULL; END $$`);
    for (const table of tables) {
      await admin.query(`CREATE TRIGGER note_deletion AFTER DELETE ON leasehold.${table}
        REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_deletion()`);
    }
    await admin.query(`INSERT INTO leasehold.lease (namespace, resource, lease_id, holder, token, ttl_ms,
      granted_at, expires_at, ended) SELECT 'many', 'r' || n, 'l' || n, 'h', n, 1, ${OLD}, ${OLD}, 'released'
      FROM generate_series(1, 1500) n`);
    await admin.query(`INSERT INTO leasehold.grant_history (namespace, resource, grant_id, holder, token,
      state, ttl_ms, expires_at, recorded_at) SELECT 'many', 'r', 'g' || n, 'h', n, 'released', 1, ${OLD}, ${OLD}
      FROM generate_series(1, 1500) n`);
    await admin.query(`INSERT INTO leasehold.api_key (id, namespace, name, role, prefixes, digest, created_at,
      expires_at) SELECT 'k' || n, 'many', 'n', 'viewer', '[]', 'd', ${OLD}, ${OLD} FROM generate_series(1, 1500) n`);
    const { leases, history, control } = database;
    expect(await leases.collect(0)).toBeGreaterThanOrEqual(1_500);
    expect(await history.collect(0)).toBeGreaterThanOrEqual(1_500);
    expect(await control.keys.collect(0)).toBeGreaterThanOrEqual(1_500);
    const { rows } = await admin.query(
      "SELECT what, max(rows) AS most FROM deletions GROUP BY what ORDER BY what",
    );
    expect(rows).toEqual([...tables].sort().map((what) => ({ what, most: 1_000 })));
    await admin.query("DROP FUNCTION note_deletion CASCADE");
  });
});

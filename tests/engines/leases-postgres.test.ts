/**
 * Each branch of the statements of leases: what an acquire answers in each state of a resource, and what a
 * statement does whose row changes between its read and its lock.
 */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { grantIdOf, systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { AcquireRequest, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { LONG_MS, requestOf } from "../support/faults/queue-site.js";

const namespace = "default";
const LOCK = 77;

describePostgres("leases in PostgreSQL", () => {
  let fresh: FreshDatabase;
  let database: PostgresDatabase;
  let store: LeaseStore;
  let admin: pg.Client;
  beforeAll(async () => {
    fresh = await freshDatabase();
    database = await openPostgres({ url: fresh.url }, systemEnv);
    store = database.leases;
    admin = new pg.Client({ connectionString: fresh.url });
    await admin.connect();
  });
  afterAll(async () => {
    await admin.end();
    await database.close();
    await fresh.drop();
  });

  /** The grant has expired, also one that was revoked until then. */
  const expire = (resource: string) =>
    admin.query(
      "UPDATE leasehold.lease SET expires_at = now() - interval '1 s' WHERE resource = $1",
      [resource],
    );
  const pause = (resource: string) =>
    admin.query("UPDATE leasehold.lease SET paused = true WHERE resource = $1", [resource]);
  const expireWaiter = (resource: string, { leaseId }: AcquireRequest) =>
    admin.query(
      "UPDATE leasehold.waiter SET expires_at = now() - interval '1 s' WHERE resource = $1 AND lease_id = $2",
      [resource, leaseId],
    );
  const revoke = (resource: string, free: "now" | "atExpiry") =>
    store.revoke([{ namespace, resource, free }]);
  const waiters = async (resource: string) => {
    const queued = await database.waiters({ namespace, resource });
    return queued.map(({ grantId }) => grantId);
  };
  /** A resource that is free, and reserved for the first of these waiters. */
  async function waiting(resource: string, ...queued: readonly AcquireRequest[]): Promise<void> {
    const held = requestOf(resource);
    await store.acquire([held]);
    for (const one of queued) await store.acquire([{ ...one, queueMs: LONG_MS }]);
    await store.release([held]);
  }

  /** The waiters that `act` wakes, by their grant ids. */
  async function heard(act: () => Promise<unknown>): Promise<string[]> {
    const woken: string[] = [];
    const hear = ({ payload = "" }) => woken.push((JSON.parse(payload) as string[])[3]!);
    admin.on("notification", hear);
    await admin.query("LISTEN leasehold");
    await act();
    // What was sent before arrives before this answer.
    await admin.query("UNLISTEN leasehold");
    admin.removeListener("notification", hear);
    return woken;
  }

  describe("an acquire", () => {
    interface Case {
      readonly state: string;
      /** Brings the resource into it. A is who had it, B asks. */
      readonly make: (a: AcquireRequest, b: AcquireRequest) => Promise<unknown>;
      readonly answer: (a: AcquireRequest, b: AcquireRequest) => object;
    }
    const acquired = () => ({ status: "acquired" });
    const ended = () => ({ status: "ended" });
    const heldByA = (a: AcquireRequest) => ({
      status: "held",
      holder: a.holder,
      grantId: grantIdOf(a.leaseId),
    });
    const paused = () => ({ status: "held", holder: "paused", grantId: null, remainingMs: null });
    const CASES: readonly Case[] = [
      { state: "never granted", make: async () => {}, answer: acquired },
      { state: "held", make: (a) => store.acquire([a]), answer: heldByA },
      {
        state: "held, with a waiter behind",
        make: async (a) => {
          await store.acquire([a]);
          await store.acquire([requestOf(a.resource, { queueMs: LONG_MS })]);
        },
        answer: heldByA,
      },
      {
        state: "revoked until its expiry",
        make: async (a) => [await store.acquire([a]), await revoke(a.resource, "atExpiry")],
        answer: heldByA,
      },
      {
        state: "expired",
        make: async (a) => [await store.acquire([a]), await expire(a.resource)],
        answer: acquired,
      },
      {
        state: "released",
        make: async (a) => [await store.acquire([a]), await store.release([a])],
        answer: acquired,
      },
      { state: "held by the caller", make: (_, b) => store.acquire([b]), answer: acquired },
      {
        state: "held by the caller, and paused since",
        make: async (_, b) => [await store.acquire([b]), await pause(b.resource)],
        answer: acquired,
      },
      {
        state: "expired, of the caller",
        make: async (_, b) => [await store.acquire([b]), await expire(b.resource)],
        answer: ended,
      },
      {
        state: "released by the caller",
        make: async (_, b) => [await store.acquire([b]), await store.release([b])],
        answer: ended,
      },
      {
        state: "revoked at once, of the caller",
        make: async (_, b) => [await store.acquire([b]), await revoke(b.resource, "now")],
        answer: ended,
      },
      {
        state: "revoked until its expiry, of the caller",
        make: async (_, b) => [await store.acquire([b]), await revoke(b.resource, "atExpiry")],
        answer: ended,
      },
      {
        state: "free and paused",
        make: async (a) => {
          await store.acquire([a]);
          await store.release([a]);
          await pause(a.resource);
        },
        answer: paused,
      },
      {
        state: "held and paused",
        make: async (a) => [await store.acquire([a]), await pause(a.resource)],
        answer: paused,
      },
      {
        state: "reserved for a waiter",
        make: (a) => waiting(a.resource, a),
        answer: (a) => ({ status: "held", holder: a.holder, grantId: null, ahead: 1 }),
      },
      {
        state: "reserved for a waiter until just now",
        make: async (a) => [await waiting(a.resource, a), await expire(a.resource)],
        answer: acquired,
      },
      {
        state: "expired, and reserved for the first of ten waiters",
        make: async (a) => {
          await store.acquire([requestOf(a.resource)]);
          const others = Array.from({ length: 9 }, () => requestOf(a.resource));
          for (const one of [a, ...others]) await store.acquire([{ ...one, queueMs: LONG_MS }]);
          await expire(a.resource);
        },
        answer: (a) => ({ status: "held", holder: a.holder, grantId: null, ahead: 10 }),
      },
      {
        state: "released later than now, as the clock was set back",
        make: async (a) => {
          await waiting(a.resource, a);
          await admin.query(
            "UPDATE leasehold.lease SET expires_at = now() + interval '1 h' WHERE resource = $1",
            [a.resource],
          );
        },
        answer: acquired,
      },
      {
        state: "left by a waiter that has died",
        make: async (a) => [await waiting(a.resource, a), await expireWaiter(a.resource, a)],
        answer: acquired,
      },
      {
        state: "reserved for the caller",
        make: (a, b) => waiting(a.resource, b, a),
        answer: acquired,
      },
      {
        state: "reserved for the next, as the caller's own position has expired",
        make: async (a, b) => {
          await waiting(a.resource, b, a, requestOf(a.resource));
          await expireWaiter(a.resource, b);
        },
        answer: (a) => ({ status: "held", holder: a.holder, grantId: null, ahead: 2 }),
      },
      {
        state: "reserved for others, as the caller's position between them has expired",
        make: async (a, b) => {
          await waiting(a.resource, a, b, requestOf(a.resource));
          await expireWaiter(a.resource, b);
        },
        answer: (a) => ({ status: "held", holder: a.holder, grantId: null, ahead: 2 }),
      },
    ];

    const named = CASES.map((one) => [one.state, one] as const);
    describe.each(named)("of a resource that is %s", (state, { make, answer }) => {
      it.each([
        ["alone", false, false],
        ["beside one that waits", false, true],
        ["that waits", true, false],
      ])("%s", async (how, waits, isBeside) => {
        const resource = `${state}, ${how}`;
        const [a, b] = [requestOf(resource, { holder: "a" }), requestOf(resource, { holder: "b" })];
        await make(a, b);
        const rows = "SELECT FROM leasehold.waiter WHERE resource = $1";
        const before = (await admin.query(rows, [resource])).rowCount ?? 0;
        const other = requestOf(`other of ${resource}`, { queueMs: LONG_MS });
        const asked = { ...b, ...(waits && { queueMs: LONG_MS }) };
        const [outcome] = await store.acquire(isBeside ? [asked, other] : [asked]);
        const wanted = answer(a, b);
        expect(outcome).toMatchObject(wanted);
        // It waits only if it asks for that, and only while it has to.
        const more = ((await admin.query(rows, [resource])).rowCount ?? 0) - before;
        if (!waits) expect(more).toBeLessThanOrEqual(0);
        const queued = await waiters(resource);
        expect(queued.includes(grantIdOf(b.leaseId))).toBe(waits && "holder" in wanted);
      });
    });
  });

  it("keeps a waiter that asks again for as long as it then says, also early", async () => {
    const resource = "asks again early";
    await store.acquire([requestOf(resource)]);
    const waiter = { ...requestOf(resource), queueMs: LONG_MS };
    const query = "SELECT expires_at AS until FROM leasehold.waiter WHERE resource = $1";
    const asked = async (requests: readonly AcquireRequest[]) => {
      await store.acquire(requests);
      const { rows } = await admin.query<{ until: Date }>(query, [resource]);
      return rows[0]?.until.getTime() ?? 0;
    };
    const first = await asked([waiter]);
    await expect.poll(() => asked([waiter])).toBeGreaterThan(first);
    // A copy in the same batch is decided by the rules.
    const second = await asked([waiter]);
    await expect.poll(() => asked([waiter, waiter])).toBeGreaterThan(second);
  });

  it("passes a resource on when the first waiter for it gives up, unless it is still held", async () => {
    for (const [resource, isPassedOn] of [
      ["has expired", true],
      ["still held", false],
    ] as const) {
      const [held, first, second] = [1, 2, 3].map(() => requestOf(resource));
      await store.acquire([held!]);
      for (const one of [first!, second!]) await store.acquire([{ ...one, queueMs: LONG_MS }]);
      if (isPassedOn) await expire(resource);
      const woken = await heard(async () => {
        expect(await store.release([first!])).toEqual([{ status: "notHeld" }]);
      });
      expect(woken).toEqual(isPassedOn ? [grantIdOf(second!.leaseId)] : []);
      expect(await waiters(resource)).toEqual([grantIdOf(second!.leaseId)]);
    }
  });

  it("wakes the first living waiter after a revoke that frees at once, and after a pause", async () => {
    const { pauses } = database.control.actors;
    const paused = { namespace, kind: "resource", name: "resumed" } as const;
    for (const [resource, act] of [
      ["revoked", () => revoke("revoked", "now")],
      ["resumed", () => pauses.clear(paused)],
    ] as const) {
      const [dead, live] = [requestOf(resource), requestOf(resource)];
      await store.acquire([requestOf(resource)]);
      for (const one of [dead, live]) await store.acquire([{ ...one, queueMs: LONG_MS }]);
      await expireWaiter(resource, dead);
      if (resource === "resumed")
        await pauses.set({ ...paused, actor: "cli:me", reason: "a test" });
      expect(await heard(act)).toEqual([grantIdOf(live.leaseId)]);
    }
  });

  it("lets a waiter give up where the record is gone", async () => {
    const [held, waiter] = [requestOf("collected"), requestOf("collected")];
    await store.acquire([held]);
    await store.acquire([{ ...waiter, queueMs: LONG_MS }]);
    await admin.query("DELETE FROM leasehold.lease WHERE resource = 'collected'");
    expect(await store.release([waiter])).toEqual([{ status: "notHeld" }]);
    expect(await waiters("collected")).toEqual([]);
  });

  it("lists the waiters that live", async () => {
    const [dead, live] = [requestOf("queue"), requestOf("queue")];
    await waiting("queue", dead, live);
    expect(await waiters("queue")).toEqual([dead, live].map(({ leaseId }) => grantIdOf(leaseId)));
    await expireWaiter("queue", dead);
    expect(await waiters("queue")).toEqual([grantIdOf(live.leaseId)]);
  });

  it("lists by what is left of a grant, and how long it was held, live grants alone", async () => {
    const names = ["soon", "later", "over", "released"].map((name) => `by time/${name}`);
    const [soon, later, over, back] = names.map((name) => requestOf(name));
    await store.acquire([{ ...soon!, ttlMs: 30_000 }, later!, over!, back!]);
    await expire(names[2]!);
    await store.release([back!]);
    const old =
      "UPDATE leasehold.lease SET granted_at = now() - interval '1 hour' WHERE resource <> $1";
    await admin.query(old, [names[1]]);
    const listed = async (more: object) => {
      const { items } = await store.list({ namespace, prefix: "by time/", ...more });
      return items.map(({ resource }) => resource);
    };
    expect(await listed({ expiringWithinMs: 45_000 })).toEqual([names[0]]);
    expect(await listed({ heldForMs: 60_000 })).toEqual([names[0]]);
    expect(await listed({})).toHaveLength(4);
  });

  describe("what changes a row that another has changed since it was read", () => {
    beforeAll(async () => {
      await admin.query(`CREATE FUNCTION wait_for_lock() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(${LOCK}); RETURN NEW; END $$`);
      await admin.query(`CREATE TRIGGER wait_for_lock BEFORE UPDATE ON leasehold.lease FOR EACH ROW
        WHEN (NEW.resource LIKE '%/1 first') EXECUTE FUNCTION wait_for_lock()`);
    });
    afterAll(() => admin.query("DROP FUNCTION wait_for_lock CASCADE"));

    /** Runs `act` while a statement has read both rows, and has locked the first one only. */
    async function between<T>(statement: Promise<T>, act: () => Promise<unknown>): Promise<T> {
      const waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
      await until(expect, "the statement has come to its first row", async () => {
        const { rows } = await admin.query(waits);
        return rows.length > 0;
      });
      try {
        await act();
      } finally {
        await admin.query("SELECT pg_advisory_unlock($1)", [LOCK]);
      }
      return statement;
    }

    const change = (resource: string, set: string) =>
      admin.query(`UPDATE leasehold.lease SET ${set} WHERE resource = $1`, [resource]);
    const BACKDATED = "expires_at = now() - interval '1 s'";
    const TAKEN = `lease_id = repeat('f', 32), holder = 'c', token = token + 1, ended = NULL,
      expires_at = now() + interval '1 minute'`;
    const other = { status: "held", holder: "c" };
    type Way = "acquire" | "acquire and wait" | "renew" | "release" | "revoke";
    const CASES: readonly (readonly [Way, what: string, set: string, answer: object])[] = [
      ["acquire", "was granted to another", TAKEN, other],
      ["acquire", "was granted to the caller", "OWN", { status: "acquired" }],
      ["acquire", "was paused", "paused = true", { status: "held", holder: "paused" }],
      ["acquire and wait", "was granted to another", TAKEN, other],
      ["acquire and wait", "was granted to the caller", "OWN", { status: "acquired" }],
      ["acquire and wait", "was paused", "paused = true", { status: "held", holder: "paused" }],
      ["renew", "was taken over", TAKEN, { status: "lost", reason: "taken" }],
      ["renew", "was revoked", "ended = 'revoked'", { status: "lost", reason: "revoked" }],
      ["renew", "has expired", BACKDATED, { status: "lost", reason: "expired" }],
      ["release", "was taken over", TAKEN, { status: "notHeld" }],
      ["release", "was released", "ended = 'released', expires_at = now()", { status: "released" }],
      ["release", "has expired", BACKDATED, { status: "notHeld" }],
      ["revoke", "was released", "ended = 'released', expires_at = now()", { status: "notHeld" }],
      ["revoke", "has expired", BACKDATED, { status: "notHeld" }],
      ["revoke", "was granted to another", TAKEN, { status: "otherToken" }],
    ];

    const DONE: Readonly<Record<Way, string>> = {
      acquire: "acquired",
      "acquire and wait": "acquired",
      renew: "renewed",
      release: "released",
      revoke: "revoked",
    };

    it.each(CASES)("%s: it %s", async (way, what, set, answer) => {
      const names = ["1 first", "2 second"].map((name) => `${way} ${what}/${name}`);
      const [first, second] = names.map((name) => requestOf(name)) as [
        AcquireRequest,
        AcquireRequest,
      ];
      const granted = await store.acquire([first, second]);
      const token = (granted[1] as { token: number }).token;
      const isAcquire = way.startsWith("acquire");
      const asked = isAcquire ? names.map((name) => requestOf(name)) : [first, second];
      if (isAcquire) for (const name of names) await expire(name);
      await admin.query("SELECT pg_advisory_lock($1)", [LOCK]);
      const queueMs = way === "acquire and wait" ? { queueMs: LONG_MS } : {};
      const statement = {
        acquire: () => store.acquire(asked),
        "acquire and wait": () => store.acquire(asked.map((one) => ({ ...one, ...queueMs }))),
        renew: () => store.renew(asked),
        release: () => store.release(asked),
        revoke: () =>
          store.revoke(
            names.map((resource, at) => ({
              namespace,
              resource,
              free: "now" as const,
              ...(at === 1 && { expectedToken: token }),
            })),
          ),
      }[way]();
      const own = `lease_id = '${asked[1]!.leaseId}', token = token + 1, ended = NULL,
        expires_at = now() + interval '1 minute'`;
      const outcomes = await between<readonly object[]>(statement, () =>
        change(names[1]!, set === "OWN" ? own : set),
      );
      const done = DONE[way];
      expect(outcomes).toMatchObject([{ status: done }, answer]);
    });
  });
});

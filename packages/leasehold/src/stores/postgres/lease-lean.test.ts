/**
 * The lean statements of leases for mixed requests, as a server has from its tenants and clients: what they decide in one
 * statement, as the rules would.
 */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { freshPglite } from "../../../../../tests/support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/engines/postgres.js";
import { grantIdOf, newLeaseId, systemEnv, systemRandom } from "../../env/index.js";
import type { AcquireRequest } from "../../lease/index.js";
import { openPostgres, type PostgresDatabase } from "./index.js";

/** Above any clock in microseconds. */
const LATE_TOKEN = 2 ** 52;

function exercise(open: () => Promise<{ url: string } | { directory: string }>) {
  let database: PostgresDatabase;
  beforeAll(async () => {
    database = await openPostgres(await open(), systemEnv);
  });
  afterAll(() => database?.close());

  /** How many statements a call sends. */
  async function counted<T>(call: () => Promise<T>) {
    const { general, control } = database.connections.backend;
    const sent = [...new Set([general, control])].map((sql) => vi.spyOn(sql, "query"));
    try {
      const result = await call();
      return { result, statements: sent.reduce((sum, { mock }) => sum + mock.calls.length, 0) };
    } finally {
      for (const spy of sent) spy.mockRestore();
    }
  }
  const acquire = (requests: readonly AcquireRequest[]) =>
    counted(() => database.leases.acquire(requests, { returnReplaced: true }));

  /** Of two tenants and two holders, with different TTLs and metadata. */
  const requestsOf = (name: string, ttlMs = 60_000): AcquireRequest[] =>
    ["a", "b"].flatMap((tenant) =>
      ["y", "x"].map((resource, at) => ({
        namespace: `${name} ${tenant}`,
        resource,
        leaseId: newLeaseId(systemRandom),
        holder: `holder ${at}`,
        ttlMs: ttlMs + at,
        ...(at === 0 && { metadata: `{"of":"${tenant}"}` }),
      })),
    );

  it("are acquired, renewed and released by one statement each", async () => {
    const requests = requestsOf("each");
    const acquired = await acquire(requests);
    expect(acquired.statements).toBe(1);
    expect(acquired.result).toMatchObject(
      requests.map(({ ttlMs }) => ({ status: "acquired", ttlMs, remainingMs: ttlMs })),
    );
    for (const outcome of acquired.result) expect(outcome).not.toHaveProperty("replaced");
    const views = await database.leases.get(requests);
    expect(views).toMatchObject(
      requests.map(({ namespace, resource, holder, ttlMs, metadata = null }) => ({
        namespace,
        resource,
        holder,
        ttlMs,
        metadata,
        state: "live",
      })),
    );

    const longer = requests.map((request) => ({ ...request, ttlMs: request.ttlMs + 10_000 }));
    const renewed = await counted(() => database.leases.renew(longer));
    expect(renewed.statements).toBe(1);
    expect(renewed.result).toMatchObject(
      longer.map(({ ttlMs }, at) => {
        const { token } = acquired.result[at] as { token: number };
        return { status: "renewed", ttlMs, remainingMs: ttlMs, token };
      }),
    );
    // Of one tenant too.
    const [one, other] = await Promise.all(
      [longer.slice(0, 2), longer.slice(2)].map(async (alike) => {
        const most = alike.map((request) => ({ ...request, ttlMs: request.ttlMs + 20_000 }));
        await database.leases.renew(most);
        return (await database.leases.get(most)).map((view) => view?.ttlMs);
      }),
    );
    expect(one).toEqual([90_000, 90_001]);
    expect(other).toEqual(one);
    // A renewal never shortens.
    const shorter = await counted(() => database.leases.renew(requests));
    for (const [at, outcome] of shorter.result.entries()) {
      const { ttlMs = 0 } = requests[at] ?? {};
      expect(outcome).toMatchObject({ status: "renewed", ttlMs });
      expect((outcome as { remainingMs: number }).remainingMs).toBeGreaterThan(ttlMs);
    }

    const released = await counted(() => database.leases.release(requests));
    expect(released).toEqual({
      statements: 1,
      result: requests.map(() => ({ status: "released" })),
    });
  });

  it("tell what they have replaced as a list does", async () => {
    const requests = requestsOf("replaced");
    await acquire(requests);
    await database.leases.renew(requests.slice(0, 2));
    await database.leases.release(requests);
    const before = await database.leases.get(requests);
    const again = requestsOf("replaced");
    const { result, statements } = await acquire(again);
    expect(statements).toBe(1);
    expect(result).toMatchObject(before.map((replaced) => ({ status: "acquired", replaced })));
    for (const [at, outcome] of result.entries()) {
      const { token } = outcome as { token: number };
      expect(token).toBeGreaterThan(before[at]?.token ?? Infinity);
    }
  });

  it("follow the token floor of each namespace, for new rows and for others", async () => {
    const [one, other, ...rest] = requestsOf("floor");
    if (!one || !other) return expect.unreachable();
    await acquire([other]);
    await database.leases.release([other]);
    await database.connections.backend.general.query(
      "INSERT INTO leasehold.token_floor (namespace, token) VALUES ($1, $2)",
      [one.namespace, LATE_TOKEN],
    );
    const again = { ...other, leaseId: newLeaseId(systemRandom) };
    const { result, statements } = await acquire([one, again, ...rest]);
    expect(statements).toBe(1);
    const tokens = result.map((outcome) => (outcome as { token: number }).token);
    expect(tokens.slice(0, 2)).toEqual([LATE_TOKEN + 1, LATE_TOKEN + 1]);
    for (const token of tokens.slice(2)) expect(token).toBeLessThan(LATE_TOKEN);
  });

  it("give tokens above the last one, those for waiters too, though the clock is behind it", async () => {
    const requests = requestsOf("late");
    const [one, ...others] = requests;
    if (!one) return expect.unreachable();
    await acquire(requests);
    await database.leases.release(requests);
    const again = (request: AcquireRequest, more: Partial<AcquireRequest> = {}) => ({
      ...request,
      leaseId: newLeaseId(systemRandom),
      ...more,
    });
    const queueMs = 1_000;
    const batches: (readonly AcquireRequest[])[] = [
      [again(one)],
      [again(one), ...others.map((request) => again(request))],
      [again(one, { queueMs })],
      [again(one, { queueMs }), again(one, { queueMs })],
    ];
    for (const batch of batches) {
      await database.connections.backend.general.query(
        "UPDATE leasehold.lease SET token = $1 WHERE namespace = $2",
        [LATE_TOKEN, one.namespace],
      );
      const { result } = await acquire(batch);
      expect(result[0]).toMatchObject({ status: "acquired", token: LATE_TOKEN + 1 });
      await database.leases.release([...batch, ...batch.slice(1)]);
    }
  });

  it("leave what is held, lost or waited for to the rules", async () => {
    const [held, free, ...rest] = requestsOf("rest");
    if (!held || !free) return expect.unreachable();
    await acquire([held]);
    const stranger = { ...held, leaseId: newLeaseId(systemRandom), holder: "stranger" };
    const acquired = await acquire([stranger, free, ...rest]);
    // What refuses a request is loaded by the same statement.
    expect(acquired.statements).toBe(1);
    expect(acquired.result.map(({ status }) => status)).toEqual([
      "held",
      ...[free, ...rest].map(() => "acquired"),
    ]);
    const renewed = await counted(() => database.leases.renew([stranger, free, ...rest]));
    expect(renewed.result[0]).toEqual({ status: "lost", reason: "taken" });
    expect(renewed.result.slice(1).map(({ status }) => status)).not.toContain("lost");

    const waiting = await acquire([{ ...stranger, queueMs: 60_000 }]);
    expect(waiting).toMatchObject({ result: [{ status: "held", ahead: 0 }], statements: 1 });
    const released = await counted(() => database.leases.release([held, free, ...rest]));
    expect(released.statements).toBe(1);
    expect(released.result.map(({ status }) => status)).not.toContain("notHeld");
    // Its waiter has the resource reserved.
    const passing = { ...held, leaseId: newLeaseId(systemRandom) };
    const { result } = await acquire([passing, { ...free, leaseId: newLeaseId(systemRandom) }]);
    expect(result.map(({ status }) => status)).toEqual(["held", "acquired"]);
    const served = await acquire([{ ...stranger, queueMs: 60_000 }]);
    expect(served).toMatchObject({ result: [{ status: "acquired" }], statements: 1 });
    expect(await database.waiters(held)).toEqual([]);
  });

  it("remove the position that a lost answer has left of a holder, and wake the next waiter", async () => {
    const [held, , other] = requestsOf("own") as [AcquireRequest, AcquireRequest, AcquireRequest];
    await acquire([held]);
    const { namespace, resource } = held;
    const queue =
      "INSERT INTO leasehold.waiter (namespace, resource, lease_id, holder, expires_at) VALUES";
    const values = "($1, $2, $3, 'w', clock_timestamp() + interval '60 s')";
    for (const { leaseId } of [held, other]) {
      const { general } = database.connections.backend;
      await general.query(`${queue} ${values}`, [namespace, resource, leaseId]);
    }
    const closing = new AbortController();
    const watch = database.leases.watch(namespace, { signal: closing.signal });
    const events = watch[Symbol.asyncIterator]();
    expect(await events.next()).toMatchObject({ value: { type: "resync" } });
    expect(await database.leases.release([held])).toEqual([{ status: "released" }]);
    const next = grantIdOf(other.leaseId);
    expect(await database.waiters(held)).toEqual([{ holder: "w", grantId: next }]);
    expect(await events.next()).toMatchObject({ value: { resource, wakes: next } });
    closing.abort();
    await events.return?.();
  });
}

describe("mixed requests on PGlite", () => {
  let fresh: Awaited<ReturnType<typeof freshPglite>>;
  exercise(async () => {
    fresh = await freshPglite();
    return { directory: fresh.directory };
  });
  afterAll(() => fresh?.remove());
});

describePostgres("mixed requests on PostgreSQL", () => {
  let fresh: FreshDatabase;
  exercise(async () => {
    fresh = await freshDatabase();
    return { url: fresh.url };
  });
  afterAll(() => fresh?.drop());

  it("get what is left of resources that another statement adds at the same time", async () => {
    const { url } = fresh;
    const database = await openPostgres({ url }, systemEnv);
    // Within a transaction, a view of the activity would not change.
    const [other, watcher] = [new pg.Client(url), new pg.Client(url)];
    await Promise.all([other.connect(), watcher.connect()]);
    const [taken, ...free] = ["a", "b"].flatMap((namespace) =>
      ["x", "y"].map((resource) => ({
        namespace,
        resource,
        leaseId: newLeaseId(systemRandom),
        holder: namespace,
        ttlMs: 60_000,
      })),
    );
    // Of which namespace a token is shows only if they differ.
    await other.query("INSERT INTO leasehold.token_floor (namespace, token) VALUES ('b', $1)", [
      LATE_TOKEN,
    ]);
    await other.query("BEGIN");
    await other.query(
      `INSERT INTO leasehold.lease
         (namespace, resource, lease_id, holder, ttl_ms, token, granted_at, expires_at)
       VALUES ('a', 'x', $1, 'other', 60000, 1, now(), now() + interval '1 hour')`,
      [newLeaseId(systemRandom)],
    );
    const acquiring = database.leases.acquire(
      [...free, taken].flatMap((each) => each ?? []),
      {
        returnReplaced: true,
      },
    );
    const isBlocked = async () => {
      const { rows } = await watcher.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      );
      return rows.length > 0;
    };
    while (!(await isBlocked()));
    await other.query("COMMIT");
    const outcomes = await acquiring;
    expect(outcomes).toMatchObject([
      ...free.map(() => ({ status: "acquired" })),
      { status: "held", holder: "other" },
    ]);
    const views = await database.leases.get(free);
    expect(views.map((view) => view?.token)).toEqual(
      free.map((_, at) => (outcomes[at] as { token: number }).token),
    );
    await Promise.all([other.end(), watcher.end()]);
    await database.close();
  });
});

/** The end of a once call on PostgreSQL, where an answer that was lost has left its holder in the queue of its own resource. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { type OnceGrant, resourceOf } from "../../packages/leasehold/src/once/port.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";

const namespace = "default";
const LONG_MS = 60_000;

describePostgres("once on PostgreSQL, whose holder still has a position in the queue", () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let stores: Awaited<ReturnType<typeof openPostgres>>;
  let admin: pg.Client;

  beforeAll(async () => {
    database = await freshDatabase();
    stores = await openPostgres({ url: database.url }, systemEnv);
    admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
  });
  afterAll(async () => {
    await admin.end();
    await stores.close();
    await database.drop();
  });

  const waitersOf = async (resource: string) => {
    const query = "SELECT lease_id FROM leasehold.waiter WHERE resource = $1";
    const { rows } = await admin.query<{ lease_id: string }>(query, [resource]);
    return rows.map(({ lease_id }) => lease_id);
  };

  const END = {
    succeeds: (grant: OnceGrant) => stores.once.succeed({ ...grant, value: 1, keepMs: null }),
    fails: (grant: OnceGrant) =>
      stores.once.fail({ ...grant, error: "it broke", maxAttempts: null, retryDelayMs: 0 }),
  };

  it.each(["succeeds", "fails"] as const)("passes its resource on when it %s", async (end) => {
    const resource = resourceOf(end);
    const ask = () => ({
      namespace,
      resource,
      leaseId: newLeaseId(systemRandom),
      holder: "h",
      ttlMs: LONG_MS,
    });
    const [mine, next] = [ask(), ask()];
    const [held] = await stores.leases.acquire([mine]);
    if (held?.status !== "acquired") throw new Error("it is free");
    const insert = `INSERT INTO leasehold.waiter (namespace, resource, lease_id, expires_at)
      VALUES ($1, $2, $3, now() + interval '1 minute')`;
    await admin.query(insert, [namespace, resource, mine.leaseId]);
    expect(await stores.leases.acquire([{ ...next, queueMs: LONG_MS }])).toMatchObject([
      { status: "held", ahead: 1 },
    ]);
    const { leaseId } = mine;
    const outcome = await END[end]({ namespace, key: end, leaseId, token: held.token });
    expect(outcome).toMatchObject({ status: "recorded" });
    expect(await waitersOf(resource)).toEqual([next.leaseId]);
    // Nothing is reserved for the one that is gone.
    expect(await stores.leases.acquire([next])).toMatchObject([{ status: "acquired" }]);
  });
});

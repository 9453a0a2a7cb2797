/** What an adapter of a library's transactions must do, on PostgreSQL. */
import pg from "pg";
import { afterAll, beforeAll, expect, type TestAPI } from "vitest";
import type * as Fence from "../../../../packages/leasehold/src/fence/index.js";
import type { SqlTransaction } from "../../../../packages/leasehold/src/lease/index.js";
import type { Adapter, Page } from "./page.js";

export interface Library {
  readonly db: unknown;
  transaction(work: (tx: unknown) => Promise<void>): Promise<unknown>;
  /** What runs statements outside of a transaction. Default: `db`. */
  readonly outside?: unknown;
  close(): Promise<unknown>;
}

interface World {
  readonly url: string;
  readonly opened: Library;
  readonly page: Page;
  readonly adapter: Adapter;
}

/** Text that would be changed by careless quoting, escaping or numbering of placeholders. */
const ODD = `$1 ? ?? \\? :a ::text %s '" {"a",NULL} \\ \u{1F600} `;

export function exerciseAdapter(it: TestAPI, open: () => Promise<World>): void {
  let world: World;
  let client: pg.Client;
  beforeAll(async () => {
    world = await open();
    client = new pg.Client({ connectionString: world.url });
    await client.connect();
    await client.query("DROP TABLE IF EXISTS orders");
    await client.query("CREATE TABLE orders (id serial PRIMARY KEY, customer text NOT NULL)");
  });
  afterAll(async () => {
    await client?.end();
    await world?.opened.close();
  });

  const taskOf = async (to: string) => {
    const { items } = await world.page.leasehold.tasks.list({ limit: 1_000 });
    return items.filter(({ data }) => (data as { to?: string }).to === to);
  };
  const ordersOf = async (customer: string) =>
    (await client.query("SELECT FROM orders WHERE customer = $1", [customer])).rows.length;
  const undone = new Error("the caller's own trouble");
  let customers = 0;
  const fresh = () => `${ODD}${(customers += 1)} ${Math.random()}`;

  it("adds the row and the task when the transaction commits", async () => {
    const customer = fresh();
    await world.adapter.placeOrder(world.opened.db, customer);
    expect(await ordersOf(customer)).toBe(1);
    expect(await taskOf(customer)).toMatchObject([{ state: "pending", data: { to: customer } }]);
  });

  it("adds none when the transaction is rolled back", async () => {
    const { page, adapter, opened: library } = world;
    const to = fresh();
    const failing = library.transaction(async (tx) => {
      await page.leasehold.tasks.enqueue(page.sendMail, { to }, { client: adapter.clientOf(tx) });
      const { rows } = await adapter
        .clientOf(tx)
        .query("SELECT count(*)::int AS n FROM leasehold.task WHERE data LIKE '%' || $1 || '%'", [
          to.split(" ").at(-1),
        ]);
      expect(rows).toEqual([{ n: 1 }]);
      throw undone;
    });
    await expect(failing).rejects.toBe(undone);
    expect(await taskOf(to)).toEqual([]);
  });

  it("adds batches, with duplicates, repetitions and every option", async () => {
    const { page, adapter, opened: library } = world;
    const { tasks } = page.leasehold;
    const [to, dedupeKey] = [fresh(), fresh()];
    const scheduledAt = new Date("2099-01-02T03:04:05.678Z");
    let ids: string[] = [];
    await library.transaction(async (tx) => {
      const added = await tasks.enqueueAll(
        page.sendMail,
        [
          { data: { to }, dedupeKey },
          { data: { to }, dedupeKey },
          { data: { to }, priority: -7, scheduledAt, queue: "other", maxAttempts: 3 },
        ],
        { client: adapter.clientOf(tx) },
      );
      ids = added.map(({ id }) => id);
      const again = { id: ids[2] ?? "", queue: "other", client: adapter.clientOf(tx) };
      expect((await tasks.enqueue(page.sendMail, { to }, again)).id).toBe(ids[2]);
    });
    expect(ids[1]).toBe(ids[0]);
    expect(await taskOf(to)).toHaveLength(2);
    expect(await tasks.get(ids[2] ?? "")).toMatchObject({
      queue: "other",
      priority: -7,
      maxAttempts: 3,
      scheduledAt: scheduledAt.toISOString(),
    });
  });

  it("records the success of once", async () => {
    const { page, adapter, opened: library } = world;
    const key = fresh();
    const bill = (fails: boolean) =>
      page.leasehold.once(key, async (lease) => {
        await library.transaction(async (tx) => {
          await lease.succeed({ to: key }, { client: adapter.clientOf(tx) });
          if (fails) throw undone;
        });
        return { to: key };
      });
    await expect(bill(true)).rejects.toBe(undone);
    expect(await bill(false)).toMatchObject({ ran: true });
    expect(await bill(false)).toMatchObject({ ran: false, value: { to: key } });
  });

  it("fences, and refuses a stale token", async () => {
    const { page, adapter, opened: library } = world;
    const { fence } = await page.built<typeof Fence>("leasehold/fence");
    const resource = fresh();
    const pass = (token: number) =>
      library.transaction((tx) => fence(adapter.clientOf(tx), resource, token));
    await pass(11);
    await expect(pass(10)).rejects.toMatchObject({ code: "STALE_TOKEN", lastToken: 11 });
    const elsewhere = library.transaction((tx) =>
      fence(adapter.clientOf(tx), resource, 1, { schema: "nowhere" }),
    );
    await expect(elsewhere).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
  });

  it("is refused outside of a transaction", async () => {
    const { page, adapter, opened: library } = world;
    const to = fresh();
    const outside = { client: adapter.clientOf(library.outside ?? library.db) };
    const added = page.leasehold.tasks.enqueue(page.sendMail, { to }, outside);
    await expect(added).rejects.toMatchObject({ code: "INVALID_OPTION", path: "client" });
    expect(await taskOf(to)).toEqual([]);
  });

  it("is refused after its transaction has ended, with nothing added", async () => {
    const { page, adapter, opened: library } = world;
    const { tasks } = page.leasehold;
    const to = fresh();
    let ended: SqlTransaction | undefined;
    await library.transaction(async (tx) => {
      ended = adapter.clientOf(tx);
    });
    // Drizzle sends it all the same, to a connection without a transaction.
    const code = expect.stringMatching(/^(STORE_UNAVAILABLE|INVALID_OPTION)$/);
    const late = { client: ended as SqlTransaction };
    const refusal = expect.objectContaining({ code, outcome: "none" });
    await expect(tasks.enqueue(page.sendMail, { to }, late)).rejects.toEqual(refusal);
    const recorded = page.leasehold.once(to, (lease) => lease.succeed({ to }, late));
    await expect(recorded).rejects.toEqual(refusal);
    expect(await taskOf(to)).toEqual([]);
  });

  it("is needed: the transaction itself is refused, with the way to the adapters", async () => {
    const { page, opened: library } = world;
    const refused = library.transaction(async (tx) => {
      await page.leasehold.tasks.enqueue(page.sendMail, { to: "ada" }, { client: tx as never });
    });
    await expect(refused).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "client",
      message: expect.stringContaining("wrap your library's transaction"),
    });
  });

  it("lets a failure of the server through with its own words alone", async () => {
    const { page, adapter, opened: library } = world;
    const to = fresh();
    const aborted = library.transaction(async (tx) => {
      const own = adapter.clientOf(tx);
      await own.query("SET LOCAL transaction_read_only = on", []);
      await page.leasehold.tasks.enqueue(page.sendMail, { to }, { client: own });
    });
    await expect(aborted).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "none",
      message: expect.stringContaining("read-only transaction"),
    });
  });
}

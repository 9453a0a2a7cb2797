/** The record in the caller's own transaction, on PGlite with the caller's tables beside ours. */
import { PGlite } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../index.js";
import type { Leasehold } from "../leasehold.js";
import { pglite } from "../stores/postgres/index.js";

describe("a success in the caller's transaction", () => {
  let db: PGlite;
  let a: Leasehold;
  let b: Leasehold;
  beforeAll(async () => {
    db = await PGlite.create();
    await db.exec("CREATE TABLE invoice (customer text)");
    a = await connect(pglite({ db }), { holder: "a" });
    b = await connect(pglite({ db }), { holder: "b" });
  }, 60_000);
  afterAll(async () => {
    await a.close();
    await b.close();
    await db.close();
  });

  const invoices = async (customer: string) => {
    const text = "SELECT count(*)::int AS n FROM invoice WHERE customer = $1";
    return (await db.query<{ n: number }>(text, [customer])).rows[0]?.n;
  };
  /** The billing of a customer, after a step before it, if there is one. */
  const bill = (client: Leasehold, customer: string, before?: () => Promise<unknown>) =>
    client.once(customer, async (lease) => {
      await before?.();
      await db.transaction(async (tx) => {
        await tx.query("INSERT INTO invoice VALUES ($1)", [customer]);
        await lease.succeed({ billed: customer }, { client: tx });
      });
      return { billed: customer };
    });

  it("is recorded with what the transaction writes, exactly once", async () => {
    const answers = await Promise.all([a, b, a, b].map((client) => bill(client, "ada")));
    expect(answers.filter(({ ran }) => ran)).toHaveLength(1);
    for (const { value } of answers) expect(value).toEqual({ billed: "ada" });
    expect(await invoices("ada")).toBe(1);
    expect((await a.get("once:ada"))?.state).toBe("released");
  });

  it("is recorded nowhere if the transaction is rolled back", async () => {
    const failing = a.once("joan", (lease) =>
      db.transaction(async (tx) => {
        await tx.query("INSERT INTO invoice VALUES ('joan')");
        await lease.succeed("billed", { client: tx });
        throw new Error("no paper");
      }),
    );
    await expect(failing).rejects.toThrow("no paper");
    expect(await invoices("joan")).toBe(0);
    expect((await bill(b, "joan")).ran).toBe(true);
    expect(await invoices("joan")).toBe(1);
  });

  it("gives the caller that did the work what it recorded, whatever the work returns", async () => {
    const work = (client: Leasehold) =>
      client.once<unknown>("hedy", async (lease) => {
        await db.transaction((tx) => lease.succeed({ number: 17 }, { client: tx }));
      });
    expect(await work(a)).toEqual({ ran: true, value: { number: 17 } });
    expect(await work(b)).toMatchObject({ ran: false, value: { number: 17 } });
  });

  it("counts as a failure if the work returns without a commit", async () => {
    const forgotten = a.once("kay", async (lease) => {
      await db.transaction(async (tx) => {
        await lease.succeed("billed", { client: tx });
        await tx.rollback();
      });
      return "billed";
    });
    await expect(forgotten).rejects.toMatchObject({ code: "INVALID_OPTION", path: "work" });
    expect((await bill(b, "kay")).ran).toBe(true);
  });

  it("takes no credit for what another one has recorded after its own rollback", async () => {
    const late = a.once("rosa", async (lease) => {
      await db.transaction(async (tx) => {
        await lease.succeed("billed", { client: tx });
        await tx.rollback();
      });
      await b.revoke("once:rosa", { free: "now" });
      expect((await bill(b, "rosa")).ran).toBe(true);
      return "billed";
    });
    await expect(late).rejects.toMatchObject({ code: "INVALID_OPTION", path: "work" });
    expect(await invoices("rosa")).toBe(1);
  });

  it("rolls back a holder that comes after another one has recorded", async () => {
    const late = bill(a, "grace", async () => {
      await b.revoke("once:grace", { free: "now" });
      await bill(b, "grace");
    });
    await expect(late).rejects.toMatchObject({ code: "ONCE_DONE", by: "b" });
    expect(await invoices("grace")).toBe(1);
  });

  it("rolls back a holder whose lease has ended, though no caller has recorded yet", async () => {
    const late = bill(a, "mary", () => b.revoke("once:mary", { free: "now" }));
    await expect(late).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(await invoices("mary")).toBe(0);
    expect((await bill(b, "mary")).ran).toBe(true);
  });

  it("needs a client in a transaction", async () => {
    const refused = a.once("dorothy", (lease) => lease.succeed("billed", { client: db }));
    await expect(refused).rejects.toMatchObject({ code: "INVALID_OPTION", path: "client" });
    const none = a.once("dorothy", (lease) => lease.succeed("billed", {} as never));
    await expect(none).rejects.toMatchObject({ code: "INVALID_OPTION", path: "client" });
  });
});

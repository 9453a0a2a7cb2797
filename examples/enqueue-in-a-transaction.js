/**
 * An order and the task that it causes, in one transaction: both are there, or neither. No outbox,
 * no "order without its mail", no mail for an order that was rolled back.
 *
 *   node examples/enqueue-in-a-transaction.js [postgres://...]
 *
 * Without a URL on PGlite in this process. A server would not do: the tasks must lie in the same
 * database as the orders.
 *
 * You will see an order that fails take its task with it, and one that succeeds get its mail.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { PGlite } from "@electric-sql/pglite";
import { connect, defineTask } from "leasehold";
import { pglite, postgres } from "leasehold/stores/postgres";
import pg from "pg";
import { z } from "zod";

const sendMail = defineTask("mail.confirm-order", {
  schema: z.object({ order: z.number().int(), to: z.email() }),
});

const [url] = process.argv.slice(2);
const { source, transaction, close } = url === undefined ? await inProcess() : onServer(url);
const leasehold = await connect(source, { namespace: `example-${process.pid}` });
const { tasks } = leasehold;

try {
  await transaction((tx) =>
    tx.query("CREATE TABLE example_orders (id serial PRIMARY KEY, customer text)"),
  );
  await placeOrder("ada@example.com", { paid: true });
  await placeOrder("bob@example.com", { paid: false }).catch((error) => {
    console.log(`bob@example.com: rolled back, ${error.message}`);
  });
  await tell();
  tasks.work([sendMail.handle(({ order, to }) => console.log(`mail for order ${order} to ${to}`))]);
  while ((await tasks.counts()).pending > 0) await sleep(50);
} finally {
  await leasehold.close();
  await transaction((tx) => tx.query("DROP TABLE example_orders"));
  await close();
}

/**
 * @param {string} customer
 * @param {{ paid: boolean }} payment
 */
async function placeOrder(customer, { paid }) {
  await transaction(async (tx) => {
    const insert = "INSERT INTO example_orders (customer) VALUES ($1) RETURNING id";
    const [order] = /** @type {{ id: number }[]} */ ((await tx.query(insert, [customer])).rows);
    await tasks.enqueue(sendMail, { order: order?.id ?? 0, to: customer }, { client: tx });
    if (!paid) throw new Error("the card was declined");
  });
  console.log(`${customer}: committed`);
}

async function tell() {
  const { rows } = await transaction((tx) => tx.query("SELECT FROM example_orders"));
  const { items } = await tasks.list({ kind: sendMail.kind });
  console.log(`${rows.length} orders, ${items.length} tasks`);
}

/**
 * @typedef {{ query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> }} Transaction
 * @typedef {<T>(work: (tx: Transaction) => Promise<T>) => Promise<T>} Transact
 */

async function inProcess() {
  const db = await PGlite.create();
  /** @type {Transact} */
  const transaction = (work) => db.transaction(work);
  return { source: pglite({ db }), transaction, close: () => db.close() };
}

/** @param {string} url */
function onServer(url) {
  const pool = new pg.Pool({ connectionString: url });
  /** @type {Transact} */
  const transaction = async (work) => {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const value = await work(client);
      await client.query("COMMIT");
      return value;
    } catch (error) {
      await client.query("ROLLBACK");
      throw error;
    } finally {
      client.release();
    }
  };
  return { source: postgres({ pool }), transaction, close: () => pool.end() };
}

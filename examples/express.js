/**
 * Express with Drizzle: a request writes an order and enqueues its mail in one transaction. The same process works on
 * the tasks; workers in other processes would, too.
 *
 *   node examples/express.js
 *
 * On PGlite in this process; with `drizzle-orm/node-postgres` and `connect("postgres://...")` the rest stays as it is.
 *
 * You will see an order that is answered with 201 get its mail, and one whose card is declined leave nothing.
 */
import { once } from "node:events";
import { PGlite } from "@electric-sql/pglite";
import { sql } from "drizzle-orm";
import { pgTable, serial, text } from "drizzle-orm/pg-core";
import { drizzle } from "drizzle-orm/pglite";
import express from "express";
import { connect, defineTask } from "leasehold";
import { pglite } from "leasehold/stores/postgres";
import { z } from "zod";

const database = await PGlite.create();
await database.exec("CREATE TABLE orders (id serial PRIMARY KEY, customer text NOT NULL)");
const db = drizzle({ client: database });
const orders = pgTable("orders", { id: serial().primaryKey(), customer: text().notNull() });

const leasehold = await connect(pglite({ db: database }));
const { tasks } = leasehold;
const sendMail = defineTask("mail.confirm-order", {
  schema: z.object({ order: z.number().int(), to: z.email() }),
});

/**
 * The adapter of docs/transactions.md.
 * @param {Pick<import("drizzle-orm/pglite").PgliteDatabase, "execute">} tx
 * @returns {import("leasehold").SqlTransaction}
 */
const clientOf = (tx) => ({
  query: (text, values = []) =>
    tx.execute(
      sql.join(
        text
          .split(/\$(\d+)/)
          .map((part, at) => (at % 2 ? sql.param(values[Number(part) - 1]) : sql.raw(part))),
      ),
    ),
});

const app = express();
app.use(express.json());
app.post("/orders", async (request, response) => {
  const { customer, card } = request.body;
  const order = await db.transaction(async (tx) => {
    const [row] = await tx.insert(orders).values({ customer }).returning();
    const mail = { order: row?.id ?? 0, to: customer };
    await tasks.enqueue(sendMail, mail, { client: clientOf(tx) });
    if (card === "declined") throw Object.assign(new Error("card declined"), { status: 402 });
    return row;
  });
  response.status(201).json(order);
});
/** @type {express.ErrorRequestHandler} */
const answerError = ({ status = 500, message }, _request, response, _next) => {
  response.status(status).json({ error: message });
};
app.use(answerError);

const server = app.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
try {
  await post({ customer: "ada@example.com", card: "valid" });
  await post({ customer: "bob@example.com", card: "declined" });
  console.log(`${(await db.select().from(orders)).length} orders`);
  await new Promise((done) => {
    tasks.work([
      sendMail.handle(({ order, to }) => {
        console.log(`mail for order ${order} to ${to}`);
        done(null);
      }),
    ]);
  });
} finally {
  server.close();
  await leasehold.close();
  const { rows } = await database.query("SELECT kind, state FROM leasehold.task");
  console.log(`tasks: ${JSON.stringify(rows)}`);
  await database.close();
}

/** @param {{ customer: string, card: string }} order */
async function post(order) {
  const response = await fetch(`http://127.0.0.1:${port}/orders`, {
    method: "POST",
    headers: { "content-type": "application/json", connection: "close" },
    body: JSON.stringify(order),
  });
  console.log(`${order.customer}: ${response.status} ${await response.text()}`);
}

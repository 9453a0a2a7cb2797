/**
 * Next.js with pg: a request writes an order and enqueues its mail in one transaction.
 *
 *   npm ci --prefix examples/nextjs
 *   cd examples/nextjs && DATABASE_URL=postgres://... npx next dev
 *
 *   curl localhost:3000/orders -d '{"customer":"ada@example.com","card":"valid"}'
 *   curl localhost:3000/orders -d '{"customer":"bob@example.com","card":"declined"}'
 *   curl localhost:3000/orders
 *
 * You will see an order that is answered with 201 get its mail, which the server prints, and one whose card is declined
 * leave nothing. The table of the orders, example_nextjs_order, stays.
 */
import { database, sendMail } from "../../lib/database.js";

/** Writes an order and enqueues its mail in one transaction. */
export async function POST(request) {
  const { customer, card } = await request.json();
  const { pool, leasehold } = await database();
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const insert = "INSERT INTO example_nextjs_order (customer) VALUES ($1) RETURNING id, customer";
    const [order] = (await client.query(insert, [customer])).rows;
    await leasehold.tasks.enqueue(sendMail, { order: order.id, to: customer }, { client });
    if (card === "declined") throw new Error("card declined");
    await client.query("COMMIT");
    return Response.json(order, { status: 201 });
  } catch (error) {
    await client.query("ROLLBACK");
    if (error.message !== "card declined") throw error;
    return Response.json({ error: error.message }, { status: 402 });
  } finally {
    client.release();
  }
}

export async function GET() {
  const { pool } = await database();
  return Response.json((await pool.query("SELECT * FROM example_nextjs_order ORDER BY id")).rows);
}

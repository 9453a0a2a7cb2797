import { connect, defineTask } from "leasehold";
import { postgres } from "leasehold/stores/postgres";
import pg from "pg";

/** @type {import("leasehold").TaskDefinition<{ order: number, to: string }, unknown>} */
export const sendMail = defineTask("mail.confirm-order");

/** One pool and one client for the process: Next.js loads this module once for each route, and again after each edit. */
export const database = (globalThis.exampleDatabase ??= open());

async function open() {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
  await pool.query(
    "CREATE TABLE IF NOT EXISTS example_nextjs_order (id serial PRIMARY KEY, customer text NOT NULL)",
  );
  const leasehold = await connect(postgres({ pool }));
  return { pool, leasehold };
}

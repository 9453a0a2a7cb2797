import { connect, defineTask } from "leasehold";
import { postgres } from "leasehold/stores/postgres";
import pg from "pg";

/** @type {import("leasehold").TaskDefinition<{ order: number, to: string }, unknown>} */
export const sendMail = defineTask("mail.confirm-order");

/**
 * One pool and one client for the process: Next.js loads this module once for each route, and again after each edit. They
 * are opened at the first call, because `next build` loads the routes too, where there may be no database.
 */
export const database = () => (globalThis.exampleDatabase ??= open());

async function open() {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
  // Of connections that are not in use: the pool opens others. Without a listener they would end the process.
  pool.on("error", (error) => console.error(error.message));
  await pool.query(
    "CREATE TABLE IF NOT EXISTS example_nextjs_order (id serial PRIMARY KEY, customer text NOT NULL)",
  );
  const leasehold = await connect(postgres({ pool }));
  return { pool, leasehold };
}

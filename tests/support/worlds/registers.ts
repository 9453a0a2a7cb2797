/** What a lease protects, kept twice: with a fence, and without one, which must be seen to suffer. */
import type pg from "pg";
import { FENCE_TABLE, fence } from "../../../packages/leasehold/src/fence/index.js";
import { LeaseholdError } from "../../../packages/leasehold/src/lease/index.js";

/** In a database, with the table of fences. May be called by several at the same time. */
export async function makeRegisters(client: pg.Client): Promise<void> {
  await client.query("BEGIN");
  // Two that create the same table at once fail, also where it may exist.
  await client.query("SELECT pg_advisory_xact_lock(1)");
  await client.query(FENCE_TABLE);
  await client.query(
    "CREATE TABLE IF NOT EXISTS register (resource text, fenced boolean, token bigint, PRIMARY KEY (resource, fenced))",
  );
  await client.query("COMMIT");
}

/**
 * Writes the token to both, as a holder does that trusts its lease.
 * @returns `written`, or the code of the error with which the fence refused it
 */
export async function write(client: pg.Client, resource: string, token: number): Promise<string> {
  const put = (fenced: boolean) =>
    client.query(
      `INSERT INTO register VALUES ($1, $2, $3)
       ON CONFLICT (resource, fenced) DO UPDATE SET token = excluded.token`,
      [resource, fenced, token],
    );
  await put(false);
  await client.query("BEGIN");
  try {
    await fence(client, resource, token);
    await put(true);
    await client.query("COMMIT");
    return "written";
  } catch (error) {
    await client.query("ROLLBACK");
    if (error instanceof LeaseholdError) return error.code;
    throw error;
  }
}

/** Whose writes they show. */
export async function readRegisters(
  client: pg.Client,
  resource: string,
): Promise<{ fenced: number | undefined; unfenced: number | undefined }> {
  const { rows } = await client.query<{ fenced: boolean; token: number }>(
    "SELECT fenced, token::float8 AS token FROM register WHERE resource = $1",
    [resource],
  );
  const tokenOf = (fenced: boolean) => rows.find((row) => row.fenced === fenced)?.token;
  return { fenced: tokenOf(true), unfenced: tokenOf(false) };
}

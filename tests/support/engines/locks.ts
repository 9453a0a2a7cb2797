/** Locks rows and tables in a transaction that stays open. */
import pg from "pg";
import type { Key } from "../../../packages/leasehold/src/lease/index.js";
import type { TaskKey } from "../../../packages/leasehold/src/tasks/port.js";

/** @returns a function that unlocks it */
export function lockLease(url: string, { namespace, resource }: Key): Promise<() => Promise<void>> {
  const text = "SELECT FROM leasehold.lease WHERE namespace = $1 AND resource = $2 FOR UPDATE";
  return lockRow(url, text, [namespace, resource]);
}

/** @returns a function that unlocks it */
export function lockTask(url: string, { namespace, id }: TaskKey): Promise<() => Promise<void>> {
  const text = "SELECT FROM leasehold.task WHERE namespace = $1 AND id = $2 FOR UPDATE";
  return lockRow(url, text, [namespace, id]);
}

/** All of them, for readers too. @returns lets go of them */
export function lockLeases(url: string): Promise<() => Promise<void>> {
  return lock(url, "LOCK TABLE leasehold.lease IN ACCESS EXCLUSIVE MODE", []);
}

async function lockRow(url: string, text: string, values: string[]): Promise<() => Promise<void>> {
  return lock(url, text, values, 1);
}

async function lock(
  url: string,
  text: string,
  values: string[],
  rows: number | null = null,
): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  await client.query("BEGIN");
  const { rowCount } = await client.query(text, values);
  if (rowCount !== rows) throw new Error("there is no such row to lock");
  return () => client.end();
}

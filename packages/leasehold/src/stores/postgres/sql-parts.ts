/** SQL parts shared by the lease and task statements. */

/** Values of a batch: one array per column. */
export type Columns = readonly (readonly [name: string, type: string])[];

/**
 * The batch as rows i, numbered n from 1; its columns are the statement's values, one array each.
 * Behind a SELECT the planner estimates few rows, and so looks each up by its key. For many rows it
 * would scan the whole table, which is faster only while the table is small.
 */
export const unnested = (columns: Columns) =>
  `unnest(${columns.map(([, type], at) => `(SELECT $${at + 1}::${type}[])`).join(", ")})
      WITH ORDINALITY AS i (${columns.map(([name]) => name).join(", ")}, n)`;

/** Milliseconds after the time of the clock c. */
export const afterMs = (ms: string) => `c.now + ${ms} * interval '1 millisecond'`;
/** `grantIdOf` in SQL: whole lease ids do not leave the database. */
export const grantId = (row: string) => `left(${row}.lease_id, 16)`;

/** Compares the keys of two rows. */
export const SAME_KEY = (a: string, b: string) =>
  `${a}.namespace = ${b}.namespace AND ${a}.resource = ${b}.resource`;

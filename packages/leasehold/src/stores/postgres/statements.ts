/** What the statements of leases and tasks have in common. */

/** Batches as values of a statement: one array for each column. */
export type Columns = readonly (readonly [name: string, type: string])[];

/**
 * The batch as rows i, numbered n from 1; its columns are the statement's values, an array each. Behind a
 * SELECT the planner takes them for few, however many they are, and looks each row up by its key. For
 * many it would choose to read the whole table, which is faster only while there is little in it.
 */
export const unnested = (columns: Columns) =>
  `unnest(${columns.map(([, type], at) => `(SELECT $${at + 1}::${type}[])`).join(", ")})
      WITH ORDINALITY AS i (${columns.map(([name]) => name).join(", ")}, n)`;

/** From the time of the clock c. */
export const afterMs = (ms: string) => `c.now + ${ms} * interval '1 millisecond'`;
/** `grantIdOf`: lease ids do not leave the database. */
export const grantId = (row: string) =>
  `left(encode(sha256(convert_to(${row}.lease_id, 'UTF8')), 'hex'), 16)`;

/** The same resource. */
export const SAME_KEY = (a: string, b: string) =>
  `${a}.namespace = ${b}.namespace AND ${a}.resource = ${b}.resource`;

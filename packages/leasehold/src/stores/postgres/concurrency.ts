/** Concurrency keys and rates, as rows have them. */
import type { Concurrency, Rate } from "../../tasks/port.js";

export interface ConcurrencyRow {
  readonly concurrencyKey: string | null;
  readonly perKey: number;
  readonly anyOrder: boolean;
  readonly rateLimit: number | null;
  readonly ratePerMs: number | null;
}

/** The columns of {@link ConcurrencyRow}. */
export const concurrencyColumns = (row: string) => `${row}.concurrency_key AS "concurrencyKey",
  ${row}.concurrency_limit AS "perKey", ${row}.concurrency_any AS "anyOrder",
  ${row}.concurrency_rate AS "rateLimit", ${row}.concurrency_rate_ms AS "ratePerMs"`;

export function concurrencyOf(row: ConcurrencyRow): Concurrency | null {
  const { concurrencyKey: key, perKey, anyOrder } = row;
  if (key === null) return null;
  const rate = rateOf(row);
  return { key, perKey, order: anyOrder ? "any" : "fifo", ...(rate && { rate }) };
}

export function rateOf({
  rateLimit: limit,
  ratePerMs: perMs,
}: Pick<ConcurrencyRow, "rateLimit" | "ratePerMs">): Rate | null {
  return limit === null || perMs === null ? null : { limit, perMs };
}

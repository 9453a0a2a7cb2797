/**
 * What the code of pages takes for granted: the reader's own database and functions, and names of the block before. As text,
 * because these names exist in the pages alone.
 */
export const GRANTED = `
import type { Lease, Leasehold, SqlTransaction, TaskDefinition, Tasks } from "leasehold";

declare global {
  var db: { transaction<T>(work: (tx: SqlTransaction) => Promise<T>): Promise<T> };
  var lease: Lease;
  var leasehold: Leasehold;
  var tasks: Tasks;
  var pay: TaskDefinition<{ account: string; number: number }>;
  var charge: TaskDefinition<{ invoice: string; cents: number }>;
  var sendInvoice: TaskDefinition<{ order: number }>;
  function customers(): Promise<readonly string[]>;
  function bill(tx: SqlTransaction, customer: string): Promise<void>;
  function closeMonth(month: string, how: { token: number; signal: AbortSignal }): Promise<void>;
  function insertOrder(tx: SqlTransaction): Promise<{ id: number }>;
}
`;

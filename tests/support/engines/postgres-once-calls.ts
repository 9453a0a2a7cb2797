/** Calls that send every statement of the records of `once` in PostgreSQL. */
import type { Call } from "./postgres-store-calls.js";

const key = { namespace: "default", key: "bill" };
const grant = { ...key, leaseId: "0".repeat(48), token: 1 };
const success = { ...grant, value: "sent", keepMs: null };
const failure = { ...grant, error: "no", maxAttempts: 3, retryDelayMs: 0 };

export const ONCE_CALLS: readonly Call[] = [
  ({ once }) => once.get(key),
  ({ once }) => once.list({ namespace: "default" }),
  ({ once }) => once.succeed(success),
  ({ once }) => once.fail(failure),
  ({ once }) => once.retry(key),
  ({ once }) => once.delete(key),
  ({ once }) => once.collect(),
];

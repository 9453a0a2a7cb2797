/** The statements of the records of `once` in PostgreSQL. */
import { type Call, sql } from "./postgres-statements.js";

const key = { namespace: "default", key: "bill" };
const grant = { ...key, leaseId: "0".repeat(48), token: 1 };
const success = { ...grant, value: "sent", keepMs: null };
const failure = { ...grant, error: "no", maxAttempts: 3, retryDelayMs: 0 };

export const ONCE_CALLS: readonly Call[] = [
  [({ once }) => once.get(key), sql("once-get", "Reads the record of a key.", "namespace key")],
  [
    ({ once }) => once.list({ namespace: "default" }),
    sql(
      "once-list",
      "Reads a page of records, by key.",
      "namespace firstKey rangeEnd afterKey states limit",
    ),
  ],
  [
    ({ once }) => once.succeed(success),
    sql(
      "once-succeed",
      "Records a success under the lease of its key; the release of the lease follows in the same transaction.",
      "namespace resource leaseId token key value keepMs",
      [{ held: 0, recorded: 0 }],
    ),
    sql("once-done", "Finds who has recorded a key before.", "namespace key"),
  ],
  [
    ({ once }) => once.fail(failure),
    sql(
      "once-fail",
      "Counts a failure; the release of the lease follows in the same transaction.",
      "namespace resource leaseId token key error maxAttempts retryDelayMs",
    ),
    sql(
      "once-failed",
      "Finds the failure that an earlier call of the same grant has recorded.",
      "namespace key token",
    ),
  ],
  [
    ({ once }) => once.retry(key),
    sql("once-retry", "Forgets the failures of a key.", "namespace key"),
  ],
  [
    ({ once }) => once.delete(key),
    sql("once-delete", "Deletes the record of a key.", "namespace key"),
  ],
  [
    ({ once }) => once.collect(),
    sql("once-collect", "Deletes records whose time is over.", "limit"),
  ],
];

/** The lease that the work of a key is given: with it, the work can record its success in its own transaction. */
import {
  type HeldLease,
  InvalidOptionError,
  type Lease,
  LeaseLostError,
  OnceDoneError,
  type SqlTransaction,
} from "../lease/index.js";
import { toJson } from "../tasks/json.js";
import type { Json } from "../tasks/port.js";
import { type OnceStore, resourceOf, type SucceedOutcome, VALUE_BYTES } from "./port.js";

/**
 * What the work of `once` is given: the lease on its key. It ends with the work, whose outcome is recorded under it: here
 * `release()` and the disposal do nothing.
 */
export interface OnceLease extends Lease {
  /** How often the work of this key has failed before. */
  readonly failures: number;
  /**
   * Records the success in the caller's own transaction, in the database that keeps the records: the record and what the
   * transaction writes exist together or not at all. Call it once, before COMMIT, and return after it; the lease ends then.
   * What the work returns no longer counts: this caller gets `value` too.
   * @param value what all callers get; JSON of at most 64 KB
   * @param options.client a client in an open transaction, as of `tasks.enqueue`
   * @returns the value, to return it from the transaction
   * @throws ONCE_DONE if another caller was faster, LEASE_LOST: roll back then; INVALID_OPTION for a store that is
   *   no SQL database, or for what JSON does not carry
   * @example
   * ```ts
   * import { PGlite } from "@electric-sql/pglite";
   * import { connect } from "leasehold";
   * import { pglite } from "leasehold/stores/postgres";
   *
   * const db = await PGlite.create();
   * await db.exec("CREATE TABLE invoice (customer text)");
   * const leasehold = await connect(pglite({ db }));
   * const billed = await leasehold.once("bill-ada", (lease) =>
   *   db.transaction(async (tx) => {
   *     await tx.query("INSERT INTO invoice VALUES ('ada')");
   *     return lease.succeed("billed", { client: tx });
   *   }),
   * );
   * console.log(billed);
   * await leasehold.close();
   * await db.close();
   * ```
   */
  succeed<V extends Json>(value: V, options: { client: SqlTransaction }): Promise<V>;
}

/** What a success is recorded under. */
export interface Recording {
  readonly store: OnceStore;
  readonly namespace: string;
  readonly key: string;
  readonly keepMs: number | null;
}

/**
 * The lease with `succeed`, and without its end: the lease itself stays what it is for the client that renews it.
 * @param onJoined called when a transaction has the record, before it commits
 */
export function onceLease(
  held: HeldLease,
  failures: number,
  recording: Recording,
  onJoined: () => void,
): OnceLease {
  const { store, namespace, key, keepMs } = recording;
  // Released by the work, the key would be free for another caller before its outcome is recorded.
  const keep = async () => {};
  const own: Pick<OnceLease, "failures" | "succeed" | "release" | typeof Symbol.asyncDispose> = {
    failures,
    release: keep,
    [Symbol.asyncDispose]: keep,
    async succeed(value, options) {
      const { client } = options ?? {};
      if (client === undefined) {
        throw new InvalidOptionError(
          "client",
          "must be a SQL client in an open transaction; without one, return the value from the work",
        );
      }
      const json = toJson("value", value, VALUE_BYTES);
      const { leaseId, token } = held;
      const request = { namespace, key, leaseId, token, value: json, keepMs };
      throwUnlessRecorded(key, await store.succeed(request, { client }));
      onJoined();
      return value;
    },
  };
  return new Proxy(held, {
    get(target, name) {
      if (Object.hasOwn(own, name)) return Reflect.get(own, name) as unknown;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
    has: (target, name) => Object.hasOwn(own, name) || Reflect.has(target, name),
  }) as unknown as OnceLease;
}

/** @throws ONCE_DONE, LEASE_LOST, or why the store failed */
export function throwUnlessRecorded(key: string, outcome: SucceedOutcome): void {
  switch (outcome.status) {
    case "recorded":
      return;
    case "done":
      throw new OnceDoneError(key, outcome.by, outcome.at);
    case "refused":
      throw new LeaseLostError(resourceOf(key), "taken");
    case "failed":
      throw outcome.error;
  }
}

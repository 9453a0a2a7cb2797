/** Leases in a SQLite file: the rules decide a batch inside one transaction. */
import { grantIdOf, isoTime } from "../../env/index.js";
import type * as port from "../../lease/index.js";
import {
  asStoreError,
  ClosedError,
  cursorAfter,
  resourceOfCursor,
  viewOf,
} from "../../lease/index.js";
import { matchesQuery, operationsIn } from "../../store-kit/index.js";
import type { QueuedWaiter } from "../source.js";
import type { SqliteFile } from "./connection.js";
import { recordOf, SqliteTransaction } from "./transaction.js";
import { Notices } from "./watch.js";

const TIMEOUT_MS = 10_000;
/** Rows that `list` reads at a time. */
const READ_AT_ONCE = 1_000;

export class SqliteLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities = {
    clock: "store",
    grants: "portable",
    ttl: { minMs: 100, maxMs: 2 ** 31 - 1, stepMs: 1 },
    queue: true,
    watch: "push",
    // Times are whole milliseconds.
    epsilonMs: 1,
  };
  readonly file: SqliteFile;
  readonly #notices: Notices;
  readonly #closing = new AbortController();
  readonly #operations = operationsIn({
    transact: (work, timeoutMs = TIMEOUT_MS) => this.#transact(work, timeoutMs),
    failed(error) {
      const cause = asStoreError(error, "maybe");
      const applied = cause.outcome === "none" ? "no" : "maybe";
      return { status: "failed", applied, retryable: cause.retryable, error: cause };
    },
  });
  readonly acquire = this.#operations.acquire;
  readonly renew = this.#operations.renew;
  readonly release = this.#operations.release;
  readonly revoke = this.#operations.revoke;

  constructor(file: SqliteFile) {
    this.file = file;
    this.#notices = new Notices(file);
  }

  get(keys: readonly port.Key[]): Promise<(port.LeaseView | null)[]> {
    return this.#transact(({ nowMs }) =>
      keys.map((key) => {
        const record = recordOf(this.file.sql.load.get(key.namespace, key.resource));
        return record && viewOf(key, record, nowMs, isoTime);
      }),
    );
  }

  async list(query: port.ListQuery): Promise<port.Page<port.LeaseView>> {
    const { namespace, prefix = "", limit = 100, cursor } = query;
    const start = cursor === undefined ? "" : resourceOfCursor(cursor);
    return this.#transact(({ nowMs }) => {
      const items: port.LeaseView[] = [];
      for (let after = start; ; ) {
        const rows = this.file.sql.list.all(namespace, after, prefix, READ_AT_ONCE) as Listed[];
        for (const record of rows) {
          const { resource } = record;
          after = resource;
          if (!resource.startsWith(prefix)) return { items, nextCursor: null };
          if (!matchesQuery(record, query, nowMs)) continue;
          const last = items.at(-1);
          if (last && items.length === limit) {
            return { items, nextCursor: cursorAfter(last.resource) };
          }
          items.push(viewOf({ namespace, resource }, record, nowMs, isoTime));
        }
        if (rows.length < READ_AT_ONCE) return { items, nextCursor: null };
      }
    });
  }

  /** The head of the queue first. */
  waiters({ namespace, resource }: port.Key): Promise<readonly QueuedWaiter[]> {
    return this.#transact(({ nowMs }) => {
      const rows = this.file.sql.waiters.all(namespace, resource, nowMs);
      return (rows as { leaseId: string; holder: string }[]).map(({ leaseId, holder }) => ({
        holder,
        grantId: grantIdOf(leaseId),
      }));
    });
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<port.WatchEvent, void, void> {
    this.#assertOpen();
    yield* this.#notices.follow(namespace, [signal, this.#closing.signal]);
  }

  collect(olderThanMs: number): Promise<number> {
    const { raiseFloors, collect, collectWaiters } = this.file.sql;
    return this.#transact(({ nowMs }) => {
      collectWaiters.run(nowMs);
      const ended = [nowMs, Math.ceil(nowMs - olderThanMs)] as const;
      raiseFloors.run(...ended);
      return Number(collect.run(...ended).changes);
    });
  }

  /** Rejects further calls and ends watches. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    await this.file.close();
  }

  async #transact<T>(
    work: (transaction: SqliteTransaction) => T,
    timeoutMs = TIMEOUT_MS,
  ): Promise<T> {
    this.#assertOpen();
    const { result, hasNotified } = await this.file.transact(() => {
      const transaction = new SqliteTransaction(this.file);
      return { result: work(transaction), hasNotified: transaction.hasNotified };
    }, timeoutMs);
    if (hasNotified) this.#notices.readOwn();
    return result;
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ClosedError("the SQLite lease store");
  }
}

type Listed = port.LeaseRecord & { readonly resource: string };

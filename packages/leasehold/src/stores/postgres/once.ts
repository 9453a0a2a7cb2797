/** The records of `once` in PostgreSQL. */
import { invariant } from "../../env/index.js";
import {
  type CallOptions,
  checkInTransaction,
  cursorAfter,
  type LeaseStore,
  type Page,
  resourceOfCursor,
} from "../../lease/index.js";
import {
  type FailOnceOutcome,
  type FailOnceRequest,
  type OnceGrant,
  type OnceKey,
  type OnceQuery,
  type OnceStore,
  type OnceView,
  resourceOf,
  type SucceedOptions,
  type SucceedOutcome,
  type SucceedRequest,
} from "../../once/port.js";
import type { Json } from "../../tasks/port.js";
import { encodeJson, storedError } from "../../tasks/record.js";
import type { Parameter, Session } from "./connection.js";
import { failedOutcome, storeError } from "./failures.js";
import { endOfPrefix } from "./keys.js";
import { releaseAndWake } from "./lease-queue-statements.js";
import {
  COLLECT_ONCE,
  DELETE_ONCE,
  DONE_BY,
  type DoneRow,
  FAIL_ONCE,
  FAILED_BY,
  type FailedOnceRow,
  GET_ONCE,
  LIST_ONCE,
  RETRY_ONCE,
  type RecordRow,
  SUCCEED,
  SUCCEED_IN,
  type SucceededRow,
} from "./once-statements.js";
import type { Connections } from "./shared.js";
import { isoOf, safeToken } from "./views.js";
import { WITHDRAW } from "./wait-queue.js";

/** How many records one statement deletes: it locks them. */
const COLLECTED_AT_ONCE = 1_000;
const RECORDED: SucceedOutcome = { status: "recorded" };

export class PostgresOnceStore implements OnceStore {
  readonly leases: LeaseStore;
  readonly #backend: Connections["backend"];

  constructor({ backend }: Connections, leases: LeaseStore) {
    [this.#backend, this.leases] = [backend, leases];
  }

  async get({ namespace, key }: OnceKey): Promise<OnceView | null> {
    const [row] = await this.#backend.general.query<RecordRow>(GET_ONCE, [namespace, key]);
    return row ? viewOf(namespace, row) : null;
  }

  async list(query: OnceQuery): Promise<Page<OnceView>> {
    const { namespace, prefix = "", states = null, limit = 100, cursor } = query;
    const rows = await this.#backend.general.query<RecordRow>(LIST_ONCE, [
      namespace,
      prefix,
      endOfPrefix(prefix),
      cursor === undefined ? "" : resourceOfCursor(cursor),
      states,
      limit + 1,
    ]);
    const items = rows.slice(0, limit).map((row) => viewOf(namespace, row));
    const last = rows.length > limit ? items.at(-1) : undefined;
    return { items, nextCursor: last ? cursorAfter(last.key) : null };
  }

  async succeed(
    request: SucceedRequest,
    { client, ...options }: SucceedOptions = {},
  ): Promise<SucceedOutcome> {
    const values = [...grantValues(request), encodeJson(request.value), request.keepMs];
    if (client) {
      const { schema } = this.#backend;
      const session: Session = {
        query: async <Row>(text: string, parameters: readonly Parameter[] = []) =>
          (await client.query(schema.sql(text), [...parameters])).rows as Row[],
      };
      try {
        // The check changes nothing, whether or not it was answered.
        await checkInTransaction(client, schema.sql("leasehold.once")).catch((error: unknown) => {
          throw storeError(error, false);
        });
        const [row] = await session.query<SucceededRow>(SUCCEED_IN, values);
        return row?.recorded ? RECORDED : await settledBy(session, request);
      } catch (error) {
        throw storeError(error, true);
      }
    }
    try {
      return await this.#backend.general.transaction(async (session) => {
        const [row] = await session.query<SucceededRow>(SUCCEED, values);
        if (row?.held) await release(session, request);
        return row?.recorded ? RECORDED : await settledBy(session, request);
      }, options);
    } catch (error) {
      return failedOutcome(error);
    }
  }

  async fail(request: FailOnceRequest, options?: CallOptions): Promise<FailOnceOutcome> {
    const { error, maxAttempts, retryDelayMs } = request;
    const values = [...grantValues(request), storedError(error), maxAttempts, retryDelayMs];
    try {
      return await this.#backend.general.transaction(async (session) => {
        const [row] = await session.query<FailedOnceRow>(FAIL_ONCE, values);
        if (!row) return failedBy(session, request);
        await release(session, request);
        return { status: "recorded", ...row } as const;
      }, options);
    } catch (failure) {
      return failedOutcome(failure);
    }
  }

  async retry({ namespace, key }: OnceKey): Promise<boolean> {
    return (await this.#backend.general.query(RETRY_ONCE, [namespace, key])).length > 0;
  }

  async delete({ namespace, key }: OnceKey): Promise<boolean> {
    return (await this.#backend.general.query(DELETE_ONCE, [namespace, key])).length > 0;
  }

  async collect(): Promise<number> {
    for (let collected = 0; ; ) {
      const { length } = await this.#backend.general.query(COLLECT_ONCE, [COLLECTED_AT_ONCE]);
      collected += length;
      if (length < COLLECTED_AT_ONCE) return collected;
    }
  }
}

function grantValues({ namespace, key, leaseId, token }: OnceGrant): Parameter[] {
  return [namespace, resourceOf(key), leaseId, token, key];
}

/** As a release of the lease store, in this transaction: the next waiter is notified when it commits. */
async function release(session: Session, { namespace, key, leaseId }: OnceGrant): Promise<void> {
  const resource = resourceOf(key);
  const { text, values, answersOf } = releaseAndWake([{ namespace, resource, leaseId }]);
  const [outcome] = answersOf(await session.query(text, values)).outcomes;
  if (outcome) return;
  // A lost answer may have left a position of the holder in the queue.
  await session.query(WITHDRAW, [namespace, resource, leaseId]);
  await session.query(text, values);
}

/** What a success without a new record comes to: an earlier call of the same grant, or that of another one. */
async function settledBy(
  session: Session,
  { namespace, key, token }: SucceedRequest,
): Promise<SucceedOutcome> {
  const [done] = await session.query<DoneRow>(DONE_BY, [namespace, key]);
  if (!done) return { status: "refused" };
  if (Number(done.token) === token) return RECORDED;
  return { status: "done", by: done.by, at: isoOf(Number(done.at)) };
}

/** What a failure without a new record comes to: an earlier call of the same grant, or none. */
async function failedBy(
  session: Session,
  { namespace, key, token }: FailOnceRequest,
): Promise<FailOnceOutcome> {
  const [row] = await session.query<FailedOnceRow>(FAILED_BY, [namespace, key, token]);
  return row ? { status: "recorded", ...row } : { status: "refused" };
}

function viewOf(namespace: string, row: RecordRow): OnceView {
  const { value, at, keepUntil, token, nextInMs, ...rest } = row;
  invariant(row.state !== "done" || value !== null, "a success has a value");
  return {
    namespace,
    ...rest,
    value: value === null ? null : (JSON.parse(value) as Json),
    token: safeToken(token),
    at: isoOf(at),
    nextInMs: Math.ceil(nextInMs),
    keepUntil: keepUntil === null ? null : isoOf(keepUntil),
  };
}

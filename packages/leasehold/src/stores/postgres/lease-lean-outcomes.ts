/** The values that the lean statements take, and what their rows decide. */
import { invariant } from "../../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  Grant,
  LeaseView,
  RenewOutcome,
  RenewRequest,
} from "../../lease/index.js";
import { EMPTY_QUEUE, type LeanAnswers, type Loaded } from "../../store-kit/index.js";
import type { Parameter } from "./connection.js";
import { keyColumns } from "./keys.js";
import {
  ACQUIRE_FREE,
  ACQUIRE_FREE_MIXED,
  type FreeRow,
  type LeftRow,
  type LiveRow,
  RENEW_LIVE,
  RENEW_LIVE_MIXED,
  type ReplacedGrant,
} from "./lease-lean-statements.js";
import { recordOf, type Version } from "./lease-load.js";
import { listOf, type Row } from "./statement.js";
import { safeToken, termOf, viewOf } from "./views.js";

/** A lean statement for a batch with each key once. */
export interface LeanLeases<Outcome> {
  readonly text: string;
  readonly values: readonly Parameter[];
  readonly answersOf: (rows: readonly Row[]) => LeanAnswers<Outcome, Version>;
}

/** A statement that loads nothing says this beside its outcomes. */
export const NOTHING_LOADED = { nowMs: 0, loaded: [], joined: [] };

/** @param returnReplaced whether to return the grants that were replaced */
export function leanAcquire(
  batch: readonly AcquireRequest[],
  returnReplaced: boolean,
): LeanLeases<AcquireOutcome> {
  const [first] = batch;
  invariant(first, "a batch of requests");
  const { namespace, holder, ttlMs, metadata = null } = first;
  let areAlike = !returnReplaced;
  for (const request of batch) {
    areAlike &&= request.namespace === namespace && request.holder === holder;
    areAlike &&= request.ttlMs === ttlMs && (request.metadata ?? null) === metadata;
  }
  return {
    ...(areAlike
      ? { text: ACQUIRE_FREE, values: [namespace, holder, ttlMs, metadata, ...columns(batch)] }
      : { text: ACQUIRE_FREE_MIXED, values: [...mixedAcquires(batch), returnReplaced] }),
    answersOf([row]) {
      const free = row as unknown as FreeRow;
      const loaded = new Array<Loaded<Version> | null>(batch.length).fill(null);
      for (const left of jsonOf<LeftRow>(free.rest))
        loaded[left[0] - 1] = loadedFrom(left, free.token);
      return { nowMs: free.now, outcomes: granted(batch, free), loaded, joined: [] };
    },
  };
}

function loadedFrom(left: LeftRow, leastToken: number): Loaded<Version> {
  const [, isAwaited, version, leaseId, holder, token, ttlMs] = left;
  const [, , , , , , , grantedAt, renewedAt, expiresAt, ended, metadata, isPaused] = left;
  return {
    version,
    isPaused,
    leastToken,
    queue: isAwaited ? null : EMPTY_QUEUE,
    record: recordOf({
      leaseId,
      holder,
      token,
      ttlMs,
      grantedAt,
      renewedAt,
      expiresAt,
      ended,
      metadata,
    }),
  };
}

function mixedAcquires(batch: readonly AcquireRequest[]) {
  return [
    ...keyColumns(batch),
    batch.map(({ leaseId }) => leaseId),
    batch.map(({ holder }) => holder),
    batch.map(({ ttlMs }) => ttlMs),
    batch.map(({ metadata = null }) => metadata),
  ];
}

function granted(
  batch: readonly AcquireRequest[],
  { token, now, granted, created, names, replaced }: FreeRow,
): (AcquireOutcome | null)[] {
  const outcomes = new Array<AcquireOutcome | null>(batch.length).fill(null);
  const term = termsFrom(now);
  const grant = (at: number, token: number) => {
    const request = batch[at];
    invariant(request, "grants of requests");
    const { ttlMs } = request;
    const { expiresAt } = term(ttlMs);
    const remainingMs = ttlMs;
    outcomes[at] = { status: "acquired", token: safeToken(token), ttlMs, remainingMs, expiresAt };
  };
  const numbered = (text: string) => {
    const [n, own] = text.split(":");
    grant(Number(n) - 1, own === undefined ? token : Number(own));
  };
  for (const text of listOf(granted)) numbered(text);
  for (const text of listOf(created)) numbered(text);
  for (const [namespace, resource, own] of jsonOf<[string, string, number]>(names)) {
    const isOf = (request: AcquireRequest) =>
      request.resource === resource && request.namespace === namespace;
    grant(batch.findIndex(isOf), own);
  }
  for (const [n, ...was] of jsonOf<ReplacedGrant>(replaced)) {
    const [request, outcome] = [batch[n - 1], outcomes[n - 1]];
    invariant(request && outcome?.status === "acquired", "grants of requests");
    outcomes[n - 1] = { ...outcome, replaced: replacedBy(request, was) };
  }
  return outcomes;
}

function jsonOf<Item>(text: string | null | undefined): readonly Item[] {
  return text ? (JSON.parse(text) as Item[]) : [];
}

type Rest<Items extends readonly unknown[]> = Items extends readonly [unknown, ...infer Others]
  ? Others
  : never;

function replacedBy({ namespace, resource }: Grant, grant: Rest<ReplacedGrant>): LeaseView {
  const [holder, grantId, token, ttlMs, state, grantedAt, renewedAt, expiresAt, metadata] = grant;
  const times = { remainingMs: 0, grantedAt, renewedAt, expiresAt };
  return viewOf({ namespace, resource, holder, grantId, token, state, ttlMs, ...times, metadata });
}

/** The terms of new grants, by TTL: most have the same one. */
function termsFrom(now: number): (ttlMs: number) => ReturnType<typeof termOf> {
  let last: ReturnType<typeof termOf> | undefined;
  return (ttlMs) => {
    if (last?.ttlMs !== ttlMs) {
      last = termOf({ ttlMs, remainingMs: ttlMs, expiresAt: now + ttlMs });
    }
    return last;
  };
}

export function leanRenew(batch: readonly RenewRequest[]): LeanLeases<RenewOutcome> {
  const [first] = batch;
  invariant(first, "a batch of requests");
  const { namespace, ttlMs } = first;
  const areAlike = batch.every(
    (request) => request.namespace === namespace && request.ttlMs === ttlMs,
  );
  return {
    ...(areAlike
      ? { text: RENEW_LIVE, values: [namespace, ttlMs, ...columns(batch)] }
      : { text: RENEW_LIVE_MIXED, values: mixedRenewals(batch) }),
    answersOf([row]) {
      const { now, renewed } = row as unknown as LiveRow;
      const outcomes = new Array<RenewOutcome | null>(batch.length).fill(null);
      const term = termsFrom(now);
      for (const text of listOf(renewed)) {
        const [n, token, longerMs] = text.split(":");
        const request = batch[Number(n) - 1];
        invariant(request, "renewals of requests");
        const { ttlMs } = request;
        const remainingMs = Number(longerMs);
        const own =
          longerMs === undefined
            ? term(ttlMs)
            : termOf({ ttlMs, remainingMs, expiresAt: now + remainingMs });
        outcomes[Number(n) - 1] = {
          status: "renewed",
          token: safeToken(Number(token)),
          ttlMs,
          remainingMs: own.remainingMs,
          expiresAt: own.expiresAt,
        };
      }
      return { ...NOTHING_LOADED, outcomes };
    },
  };
}

function mixedRenewals(batch: readonly RenewRequest[]) {
  return [
    ...keyColumns(batch),
    batch.map(({ leaseId }) => leaseId),
    batch.map(({ ttlMs }) => ttlMs),
  ];
}

function columns(batch: readonly Grant[]): [resources: string[], leaseIds: string[]] {
  return [batch.map(({ resource }) => resource), batch.map(({ leaseId }) => leaseId)];
}

/**
 * A list of any length, of which only the visible part is refetched.
 *
 *   starts   ""        "m"        "t"                  ranges: ("" , "m"], ("m", "t"], ("t", …
 *            │ visible │ hidden   │ hidden             each is a query; visible ones are refetched when
 *            └─ 200 ───┴── 180 ───┴── the last         something changes, hidden ones when they become
 *                                                      visible
 *
 * A range ends where the next one starts, so added and removed rows never shift the other ranges or leave
 * a gap. A range that outgrows one response is split in two.
 */
import { type QueryFunctionContext, useQueries, useQueryClient } from "@tanstack/react-query";
import { cursorAfter, resourceOfCursor } from "leasehold/internal";
import type { LeasePage, LeaseView, Seen } from "leasehold/internal/wire";
import { useCallback, useEffect, useMemo, useState } from "react";
import { api, get } from "../../data/api.js";
import type { LeaseQuery } from "./lease-search.js";

/** The largest range: what one response holds. */
const MOST_ROWS = 200;
/** The next range loads when this few rows are left. */
const NEAR_THE_END = 120;

export interface LeaseRow extends LeaseView {
  /** Null: unknown to this instance. */
  readonly renewals: number | null;
  readonly waiters: number;
  readonly refusals: number;
  /** When the response arrived. */
  readonly answeredAtMs: number;
}

interface Range {
  readonly items: readonly LeaseRow[];
  /** The resource after which the next range begins; null: this is the last range. */
  readonly end: string | null;
}

/** The ranges of the last visit, so that a user who returns finds the list unchanged. */
const FROM_THE_BEGINNING: readonly string[] = [""];
let remembered = { filter: "", starts: FROM_THE_BEGINNING };

export interface LeaseRows {
  readonly rows: readonly LeaseRow[];
  readonly error: unknown;
  readonly isPending: boolean;
  /** There are more rows than are loaded. */
  readonly more: boolean;
  readonly retry: () => void;
  /** Sets which rows are visible, by index. */
  readonly setVisible: (first: number, last: number) => void;
}

export function useLeaseRows(query: LeaseQuery): LeaseRows {
  const filter = JSON.stringify(query);
  const [known, setKnown] = useState(remembered);
  const starts = known.filter === filter ? known.starts : FROM_THE_BEGINNING;
  useEffect(() => {
    remembered = known;
  }, [known]);

  const [view, setView] = useState({ first: 0, last: 0 });
  const cache = useQueryClient();
  const keyOf = (start: string) => ["leases", "rows", filter, start];
  const counts = starts.map((start) => cache.getQueryData<Range>(keyOf(start))?.items.length ?? 0);
  const from = rangeOf(counts, view.first) - 1;
  const to = rangeOf(counts, view.last) + 1;
  const { ranges, error, retry } = useQueries({
    queries: starts.map((start, index) => ({
      queryKey: keyOf(start),
      queryFn: ({ signal }: QueryFunctionContext) =>
        readRange(query, start, starts[index + 1], signal),
      enabled: index >= from && index <= to,
      placeholderData: () => undefined,
    })),
    combine: (all) => ({
      ranges: all.map(({ data }) => data),
      error: all.find((one) => one.isError)?.error,
      retry: () => {
        for (const one of all) if (one.isError) void one.refetch();
      },
    }),
  });
  const rows = useMemo(() => ranges.flatMap((range) => range?.items ?? []), [ranges]);

  // After a split the second half becomes a range. The next range is added when the end is near.
  const isNearEnd = view.last >= rows.length - NEAR_THE_END;
  useEffect(() => {
    const next = starts.flatMap((start, index) => {
      const rangeEnd = ranges[index]?.end ?? null;
      const isLast = index === starts.length - 1;
      const goesOn = rangeEnd !== null && rangeEnd !== starts[index + 1] && (!isLast || isNearEnd);
      return goesOn ? [start, rangeEnd] : [start];
    });
    if (next.length > starts.length) setKnown({ filter, starts: next });
  }, [ranges, starts, isNearEnd, filter]);

  const setVisible = useCallback(
    (first: number, last: number) =>
      setView((before) =>
        before.first === first && before.last === last ? before : { first, last },
      ),
    [],
  );
  return {
    rows,
    error,
    retry,
    setVisible,
    isPending: ranges.every((range) => range === undefined),
    more: ranges.at(-1)?.end !== null,
  };
}

/** The range that contains a row; for rows that are not loaded, the last range with rows. */
function rangeOf(counts: readonly number[], row: number): number {
  let end = 0;
  const index = counts.findIndex((count) => row < (end += count));
  return index === -1
    ? Math.max(
        0,
        counts.findLastIndex((count) => count > 0),
      )
    : index;
}

async function readRange(
  query: LeaseQuery,
  start: string,
  end: string | undefined,
  signal: AbortSignal,
): Promise<Range> {
  const page = await get<LeasePage>("/v1/leases", {
    signal,
    query: { ...query, limit: MOST_ROWS, cursor: start && cursorAfter(start) },
  });
  const answeredAtMs = Date.now();
  const { leases, end: rangeEnd } = withinRange(page, end);
  const seen =
    leases.length > 0
      ? await api<Seen>("POST", "/v1/leases/seen", {
          signal,
          body: leases.map(({ resource }) => resource),
        })
      : [];
  const items = leases.map((lease, index) => {
    const { renewals = null, waiters = 0, refusals = 0 } = seen[index] ?? {};
    return { ...lease, renewals, waiters, refusals, answeredAtMs };
  });
  return { items, end: rangeEnd };
}

/** The rows of a response that belong to a range, and where the next range starts. */
function withinRange({ items, nextCursor }: LeasePage, end: string | undefined) {
  const pageEnd = nextCursor === null ? null : resourceOfCursor(nextCursor);
  if (end === undefined) return { leases: items, end: pageEnd };
  const leases = items.filter(({ resource }) => compare(resource, end) <= 0);
  const isWhole = pageEnd === null || compare(pageEnd, end) >= 0;
  if (isWhole) return { leases, end };
  // Split in half, so that both halves have room to grow.
  const first = leases.slice(0, Math.ceil(leases.length / 2));
  return { leases: first, end: first.at(-1)?.resource ?? pageEnd };
}

/** Compares names by code points as stores do. JavaScript compares UTF-16 code units. */
function compare(a: string, b: string): number {
  const [left, right] = [Array.from(a), Array.from(b)];
  const at = left.findIndex((character, index) => character !== right[index]);
  if (at === -1) return left.length - right.length;
  return (left[at]?.codePointAt(0) ?? -1) - (right[at]?.codePointAt(0) ?? -1);
}

/** The virtual list of leases: rows, or cards on a narrow screen. Only those in view are rendered. */

import { Link } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { classNames, Token, useShortcuts } from "leasehold-ui";
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { ExpiryBar } from "../../ui/expiry-bar.js";
import { TimeText } from "../../ui/time.js";
import type { LeaseRow, LeaseRows } from "./lease-ranges.js";
import { FreeIn, Remaining, StateBadge } from "./lease-state.js";

const ROW_PX = 45;
const CARD_PX = 97;
const WIDE = matchMedia("(min-width: 64rem)");
const COLUMNS =
  "lg:grid-cols-[minmax(0,2fr)_5.5rem_minmax(0,1.2fr)_10.5rem_11rem_5rem_4.5rem] lg:gap-x-4";

export function LeaseList({ rows, more, setVisible }: LeaseRows) {
  const isWide = useSyncExternalStore(
    (changed) => {
      WIDE.addEventListener("change", changed);
      return () => WIDE.removeEventListener("change", changed);
    },
    () => WIDE.matches,
  );
  const list = useRef<HTMLDivElement>(null);
  const [topPx, setTopPx] = useState(0);
  const rowPx = isWide ? ROW_PX : CARD_PX;
  // A stable function: a new one would make the virtualizer measure all rows again.
  const getItemKey = useCallback((index: number) => rows[index]?.resource ?? index, [rows]);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    overscan: 8,
    scrollMargin: topPx,
    getItemKey,
    estimateSize: () => rowPx,
  });
  useEffect(() => {
    setTopPx(list.current?.offsetTop ?? 0);
    virtual.measure();
  }, [rowPx]);

  const shown = virtual.getVirtualItems();
  const first = shown[0]?.index ?? 0;
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => setVisible(first, last), [setVisible, first, last]);

  const mark = useMark(rows.length, (index) => virtual.scrollToIndex(index), list);
  return (
    <div role="table" aria-label="Leases" aria-rowcount={more ? -1 : rows.length + 1}>
      <div role="rowgroup" className="sticky top-0 z-10 bg-paper max-lg:sr-only">
        <div
          role="row"
          aria-rowindex={1}
          className={classNames("grid border-b px-4 py-2 text-xs font-medium text-muted", COLUMNS)}
        >
          <span role="columnheader">Resource</span>
          <span role="columnheader">State</span>
          <span role="columnheader">Holder</span>
          <span role="columnheader">Token</span>
          <span role="columnheader">Time left</span>
          <span role="columnheader" className="text-right">
            Renewals
          </span>
          <span role="columnheader" className="text-right">
            Waiting
          </span>
        </div>
      </div>
      <div
        ref={list}
        role="rowgroup"
        className="relative"
        style={{ height: virtual.getTotalSize() }}
      >
        {shown.map(({ index, key, start }) => {
          const row = rows[index];
          if (!row) return null;
          const style = { height: rowPx, transform: `translateY(${start - topPx}px)` };
          return <Row key={key} {...{ row, index, style }} onFocus={() => mark(index)} />;
        })}
      </div>
      {more && <p className="py-4 text-center text-sm text-muted">Loading…</p>}
    </div>
  );
}

/** `j` and `k` move the focus through the rows, so that Enter opens a row and screen readers announce it. */
function useMark(
  count: number,
  scrollTo: (index: number) => void,
  list: React.RefObject<HTMLElement | null>,
): (index: number) => void {
  const marked = useRef(-1);
  const wanted = useRef<number | null>(null);
  const focusWanted = () => {
    if (wanted.current === null) return;
    const link = list.current?.querySelector<HTMLElement>(`a[data-row="${wanted.current}"]`);
    if (!link) return;
    wanted.current = null;
    link.focus({ preventScroll: true });
  };
  // The row is rendered only after the list has scrolled to it.
  useEffect(focusWanted);
  const step = (by: number) => {
    marked.current = Math.max(0, Math.min(count - 1, marked.current + by));
    wanted.current = marked.current;
    scrollTo(marked.current);
    focusWanted();
  };
  useShortcuts({ j: () => step(1), k: () => step(-1) });
  return (index) => {
    marked.current = index;
  };
}

interface RowProps {
  readonly row: LeaseRow;
  readonly index: number;
  readonly style: React.CSSProperties;
  readonly onFocus: () => void;
}

function Row({ row, index, style, onFocus }: RowProps) {
  const { resource, holder, state, token, renewals, waiters } = row;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      style={style}
      className={classNames(
        "absolute inset-x-0 grid items-center border-b px-4 text-sm hover:bg-surface",
        "max-lg:grid-cols-[minmax(0,1fr)_auto] max-lg:content-center max-lg:gap-x-3 max-lg:gap-y-1.5 max-lg:px-1",
        COLUMNS,
      )}
    >
      <span role="cell" className="min-w-0 truncate">
        <Link
          to="/leases/$resource"
          params={{ resource }}
          data-row={index}
          onFocus={onFocus}
          title={resource}
          className="font-mono text-[0.8125rem] font-medium after:absolute after:inset-0 focus-visible:outline-none focus-visible:after:rounded-md focus-visible:after:outline-2 focus-visible:after:-outline-offset-2 focus-visible:after:outline-accent"
        >
          {resource}
        </Link>
      </span>
      <span role="cell" className="max-lg:justify-self-end">
        <StateBadge state={state} />
      </span>
      <span role="cell" className="truncate text-muted lg:text-ink" title={holder}>
        {holder}
      </span>
      <span role="cell" className="max-lg:justify-self-end">
        <Token token={token || null} />
      </span>
      <TimeLeft row={row} />
      <span role="cell" className="text-right tabular max-lg:sr-only">
        {renewals ?? <span className="text-muted">–</span>}
      </span>
      <span role="cell" className="text-right tabular max-lg:sr-only">
        {waiters > 0 ? waiters : <span className="text-muted">–</span>}
      </span>
    </div>
  );
}

/** The remaining time. On a card this is the last line, with renewals and waiters. */
function TimeLeft({ row }: { readonly row: LeaseRow }) {
  const { state, token, remainingMs, freeInMs, ttlMs, answeredAtMs, expiresAt } = row;
  const { renewals, waiters } = row;
  const more = [
    ...(renewals ? [`${renewals} renewals`] : []),
    ...(waiters > 0 ? [`${waiters} waiting`] : []),
  ];
  return (
    <span role="cell" className="flex min-w-0 items-center gap-2.5 text-xs max-lg:col-span-2">
      {state === "live" ? (
        <>
          <span className="min-w-0 flex-1 lg:max-w-24">
            <ExpiryBar token={token || null} {...{ remainingMs, ttlMs, answeredAtMs }} />
          </span>
          <span className="w-14 text-right text-muted lg:text-left">
            <Remaining {...{ remainingMs, answeredAtMs }} />
          </span>
        </>
      ) : (
        <span className="text-muted">
          {freeInMs !== undefined ? (
            <FreeIn {...{ freeInMs, answeredAtMs }} />
          ) : state === "released" ? (
            "free"
          ) : (
            <TimeText at={expiresAt} />
          )}
        </span>
      )}
      {more.length > 0 && (
        <span aria-hidden="true" className="whitespace-nowrap text-muted lg:hidden">
          {more.join(", ")}
        </span>
      )}
    </span>
  );
}

/** Events, newest first. Only the rows in view are rendered. */

import { useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Badge, Token } from "leasehold-ui";
import { useLayoutEffect, useRef, useSyncExternalStore } from "react";
import { openOnEnter, useRowKeys } from "../../app/row-keys.js";
import type { Logged } from "../../data/activity-log.js";
import { TimeText } from "../../ui/time.js";
import { detailsOf, toneOf } from "./activity-text.js";
import { ResourceLink } from "./resource-link.js";

const WIDE = matchMedia("(min-width: 768px)");
const onWide = (listener: () => void) => {
  WIDE.addEventListener("change", listener);
  return () => WIDE.removeEventListener("change", listener);
};
const ROW_PX = { wide: 38, narrow: 66 };

export const EVENT_ROW =
  "grid items-center gap-x-4 px-4 text-sm md:grid-cols-[6.5rem_6rem_minmax(0,1.4fr)_minmax(0,1fr)_6rem_minmax(0,1.4fr)]";

export function ActivityList({ events }: { readonly events: readonly Logged[] }) {
  const scroller = useRef<HTMLDivElement>(null);
  const wide = useSyncExternalStore(onWide, () => WIDE.matches);
  const rowPx = wide ? ROW_PX.wide : ROW_PX.narrow;
  const rows = useVirtualizer({
    count: events.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPx,
    getItemKey: (index) => events[index]?.seq ?? index,
    overscan: 12,
  });
  useLayoutEffect(() => rows.measure(), [rows, rowPx]);
  useRowKeys(scroller);

  // Keep the scroll position of a reader who has scrolled down, while new events arrive above.
  const newest = useRef(0);
  useLayoutEffect(() => {
    const element = scroller.current;
    const before = events.findIndex(({ seq }) => seq <= newest.current);
    newest.current = events[0]?.seq ?? 0;
    if (element && before > 0 && element.scrollTop > 0) element.scrollTop += before * rowPx;
  }, [events, rowPx]);

  return (
    <>
      <div
        aria-hidden="true"
        className={`${EVENT_ROW} border-b py-2 text-xs! text-muted max-md:hidden`}
      >
        <span>When</span>
        <span>Event</span>
        <span>Resource</span>
        <span>Holder</span>
        <span>Token</span>
        <span>Details</span>
      </div>
      <div
        ref={scroller}
        role="region"
        tabIndex={0}
        aria-label="Events"
        className="h-[max(20rem,calc(100dvh-21.5rem))] overflow-y-auto"
      >
        <ul style={{ height: rows.getTotalSize() }} className="relative">
          {rows.getVirtualItems().map(({ key, index, start }) => {
            const event = events[index];
            return (
              event && <EventRow key={key} event={event} style={{ height: rowPx, top: start }} />
            );
          })}
        </ul>
      </div>
    </>
  );
}

function EventRow({ event, style }: { event: Logged; style: { height: number; top: number } }) {
  const navigate = useNavigate();
  const { seq, at, type, resource, holder, token } = event;
  const details = detailsOf(event);
  const open = () => {
    if (resource !== null) void navigate({ to: "/leases/$resource", params: { resource } });
  };
  return (
    <li
      data-row={seq}
      tabIndex={-1}
      style={style}
      onKeyDown={openOnEnter(open)}
      className={`${EVENT_ROW} absolute inset-x-0 border-b hover:bg-sunken/60 focus:bg-sunken focus:outline-offset-[-2px] max-md:grid-cols-[auto_minmax(0,1fr)_auto] max-md:content-center max-md:gap-y-1`}
    >
      <span className="text-xs text-muted max-md:order-3 max-md:text-right">
        <TimeText at={at} />
      </span>
      <span className="max-md:order-1">
        <Badge tone={toneOf(event)}>{type}</Badge>
      </span>
      <span className="min-w-0 max-md:order-2">
        {resource === null ? (
          <span className="text-muted">–</span>
        ) : (
          <ResourceLink resource={resource} />
        )}
      </span>
      <span className="min-w-0 truncate text-xs max-md:hidden" title={holder ?? undefined}>
        {holder}
      </span>
      <span className="max-md:hidden">{token !== null && <Token token={token} />}</span>
      <span className="min-w-0 truncate text-xs text-muted max-md:hidden" title={details}>
        {details}
      </span>
      <span className="order-4 col-span-3 flex min-w-0 items-center gap-2 text-xs text-muted md:hidden">
        {token !== null && <Token token={token} />}
        <span className="min-w-0 truncate">
          {[holder, details].filter((part) => part !== null && part !== "").join(" · ")}
        </span>
      </span>
    </li>
  );
}

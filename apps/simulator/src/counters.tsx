/** The counters of the run. */

import { classNames, durationText } from "leasehold-ui";
import type { Counters as Counted } from "./playground/index.js";
import { useCalmView } from "./use-player.js";

interface Row {
  readonly name: string;
  readonly value: string;
  readonly note?: string;
  readonly bad?: boolean;
}

/** Before this a rate is meaningless. */
const RATE_AFTER_MS = 5_000;

const msText = (ms: number | null) => (ms === null ? "–" : durationText(ms));

/** The counters as rows of text. */
export function rowsOf(counters: Counted, atMs: number): readonly Row[] {
  const { operations, failOvers, falseExpirations, refusedWrites, writes } = counters;
  const perMinute = Math.round((operations.total * 60_000) / atMs);
  const stale = counters.staleWritesLetThrough;
  return [
    {
      name: "Store operations",
      value: String(operations.total),
      note: atMs < RATE_AFTER_MS ? "so far" : `${perMinute} per minute`,
    },
    {
      name: "Failover",
      value: msText(failOvers.lastMs),
      note: failOvers.count > 1 ? `${failOvers.count}, longest ${msText(failOvers.maxMs)}` : "last",
    },
    {
      name: "False expiries",
      value: String(falseExpirations),
      note: "holder was alive",
    },
    {
      name: "Refused writes",
      value: String(refusedWrites),
      note: `of ${writes}`,
    },
    {
      name: "Stale writes accepted",
      value: String(stale),
      note: "corruption",
      bad: stale > 0,
    },
  ];
}

export function CountersStrip() {
  const { frame } = useCalmView();
  return (
    <section
      aria-label="Counters"
      className="grid grid-cols-2 overflow-hidden rounded-xl border bg-surface sm:grid-cols-5"
    >
      {rowsOf(frame.counters, frame.atMs).map(({ name, value, note, bad }) => (
        <div
          key={name}
          className="-mr-px -mb-px border-r border-b px-3.5 py-2.5 max-sm:last:col-span-2"
        >
          <div className="truncate text-xs text-muted" title={name}>
            {name}
          </div>
          <div
            className={classNames(
              "mt-0.5 text-xl font-semibold tracking-tight tabular",
              bad && "text-danger",
            )}
          >
            {value}
          </div>
          <div className="truncate text-2xs text-muted">{note}</div>
        </div>
      ))}
    </section>
  );
}

/**
 * Holders over time: a row and a bar per token on one time axis.
 *
 *   ● 7  worker-b            ████▒▒    live: the remaining time is paler
 *   ● 6  worker-a       ███            a gap: the resource was free
 *   ● 5  worker-b   ████
 */

import type { GrantRecord } from "leasehold/internal/wire";
import { classNames, durationText, Token, tokenStyle } from "leasehold-ui";
import { useState } from "react";
import { localText, useNow, useTimes, utcText } from "../../ui/time.js";
import { GrantDetails } from "./grant-details.js";
import {
  type Axis,
  axisOf,
  type HolderBar,
  holderBars,
  percentOf,
  serverNowMs,
  ticksOf,
} from "./holder-bars.js";
import { StateBadge } from "./lease-state.js";

const MOST_TICKS = 6;

interface Props {
  /** Newest first. */
  readonly grants: readonly GrantRecord[];
  readonly answeredAtMs: number;
  /** The length of the axis, which ends now; null: it starts at the first grant. */
  readonly spanMs: number | null;
}

export function HoldersChart({ grants, answeredAtMs, spanMs }: Props) {
  const nowMs = serverNowMs(grants, answeredAtMs, useNow(250));
  const [marked, setMarked] = useState<string>();
  const bars = holderBars(grants, nowMs);
  const axis = axisOf(bars, nowMs, spanMs);
  const shown = bars.filter(({ endMs }) => spanMs === null || endMs >= axis.fromMs);
  const details = bars.find(({ grant }) => grant.grantId === marked) ?? bars[0];
  return (
    <div className="lg:grid lg:grid-cols-[minmax(0,1fr)_17rem]">
      <div className="min-w-0 pb-2">
        <Ticks axis={axis} />
        <ol aria-label="Grants, newest first">
          {shown.map((bar) => (
            <Row
              key={bar.grant.grantId}
              {...{ bar, axis }}
              isMarked={bar === details}
              onMark={() => setMarked(bar.grant.grantId)}
            />
          ))}
        </ol>
        {shown.length === 0 && (
          <p className="px-4 py-6 text-sm text-muted">No grants in this time range.</p>
        )}
      </div>
      {details && (
        <div className="border-t lg:border-t-0 lg:border-l">
          <GrantDetails bar={details} answeredAtMs={answeredAtMs} />
        </div>
      )}
    </div>
  );
}

/** The part of a row that shows the bar. */
const LANE = "relative ml-[9.5rem] mr-4 sm:ml-[15rem]";

function Ticks({ axis }: { readonly axis: Axis }) {
  const { style } = useTimes();
  const withDay = axis.toMs - axis.fromMs > 86_400_000;
  const text = (ms: number) => {
    const [day = "", time = ""] = (style === "utc" ? utcText : localText)(new Date(ms)).split(" ");
    return withDay ? day.slice(5) : time.replace("Z", "");
  };
  return (
    <div aria-hidden="true" className={classNames(LANE, "h-7 text-2xs text-muted tabular")}>
      {ticksOf(axis, MOST_TICKS).map((ms, index) => (
        <span
          key={ms}
          className={classNames(
            "absolute bottom-1 -translate-x-1/2",
            // A phone has room for every other label. Labels at the edges would be cut off.
            index % 2 === 1 && "max-sm:hidden",
            (percentOf(axis, ms) > 94 || percentOf(axis, ms) < 5) && "invisible",
          )}
          style={{ left: `${percentOf(axis, ms)}%` }}
        >
          {text(ms)}
        </span>
      ))}
    </div>
  );
}

function Row({
  bar,
  axis,
  isMarked,
  onMark,
}: {
  readonly bar: HolderBar;
  readonly axis: Axis;
  readonly isMarked: boolean;
  readonly onMark: () => void;
}) {
  const { grant } = bar;
  return (
    <li>
      <button
        type="button"
        aria-pressed={isMarked}
        onClick={onMark}
        onFocus={onMark}
        onPointerEnter={onMark}
        className="relative block h-8 w-full text-left text-xs hover:bg-paper aria-pressed:bg-paper focus-visible:-outline-offset-2"
      >
        <span className="absolute inset-y-0 left-4 flex w-[8.25rem] items-center gap-2 sm:w-[13.5rem]">
          <span className="sr-only">token</span>
          <span className="max-w-full shrink-0 overflow-hidden">
            <Token token={grant.token || null} />
          </span>
          <span className="min-w-0 truncate">{grant.holder}</span>
          <span className="sr-only">{spoken(bar)}</span>
        </span>
        <span className={classNames(LANE, "block h-full")}>
          <Marks axis={axis} />
          <Bar bar={bar} axis={axis} />
        </span>
      </button>
    </li>
  );
}

/** Fine lines below the axis. */
function Marks({ axis }: { readonly axis: Axis }) {
  return ticksOf(axis, MOST_TICKS).map((ms, index) => (
    <span
      key={ms}
      className={classNames("absolute inset-y-0 w-px bg-line", index % 2 === 1 && "max-sm:hidden")}
      style={{ left: `${percentOf(axis, ms)}%` }}
    />
  ));
}

function Bar({ bar, axis }: { readonly bar: HolderBar; readonly axis: Axis }) {
  const { grant, startMs, endMs, untilMs } = bar;
  if (startMs === null) {
    return (
      <span className="absolute inset-y-0 flex items-center gap-2 bg-surface pr-2 text-muted">
        <StateBadge state={grant.state} /> the store reports no times
      </span>
    );
  }
  const [from, to] = [percentOf(axis, startMs), percentOf(axis, endMs)];
  const until = untilMs === null ? to : percentOf(axis, untilMs);
  return (
    <span style={tokenStyle(grant.token)}>
      {until > to && (
        <span
          data-part="left"
          className="token-soft absolute inset-y-2 rounded-r-sm"
          style={{ left: `${to}%`, width: `${until - to}%` }}
        />
      )}
      <span
        data-part="held"
        className={classNames(
          "token-fill absolute inset-y-2 min-w-[3px]",
          untilMs === null ? "rounded-sm" : "rounded-l-sm",
          ENDS[grant.state],
        )}
        style={{ left: `${from}%`, width: `${to - from}%` }}
      />
    </span>
  );
}

/** An end other than a release has a coloured edge. */
const ENDS = {
  live: "",
  released: "",
  expired: "border-r-3 border-r-warn",
  revoked: "border-r-3 border-r-danger",
} as const;

/** The bar as text, for screen readers. */
function spoken({ startMs, endMs, ending, vacantMs }: HolderBar): string {
  return [
    ...(startMs === null ? [] : [`held for ${durationText(endMs - startMs)}`]),
    ending ?? "current holder",
    ...(vacantMs === null ? [] : [`free for ${durationText(vacantMs)} before`]),
  ].join(", ");
}

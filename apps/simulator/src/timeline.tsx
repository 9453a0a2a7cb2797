/**
 * The run from its start: the store's holders, the beliefs of each process, and the steps. Dragging it
 * shows any recorded moment, and the run can continue from there.
 */
import { classNames, Icon, tokenStyle } from "leasehold-ui";
import { type KeyboardEvent, memo, type PointerEvent, useRef } from "react";
import { type Bar, Lanes } from "./lanes.js";
import { type LogLine, NODES, type Playground } from "./playground/index.js";
import { useCalmView, usePlayer, useView } from "./use-player.js";

const MOVES_MS: Readonly<Record<string, number>> = {
  ArrowLeft: -1_000,
  ArrowDown: -1_000,
  ArrowRight: 1_000,
  ArrowUp: 1_000,
  PageDown: -10_000,
  PageUp: 10_000,
};

export function Timeline() {
  const player = usePlayer();
  const { frame, endMs, playground } = useView();
  const track = useRef<HTMLDivElement>(null);
  const msAt = (event: PointerEvent) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - left) / width)) * endMs;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const byMs = MOVES_MS[event.key];
    const toMs = { Home: 0, End: playground.reachedMs }[event.key];
    if (byMs === undefined && toMs === undefined) return;
    event.preventDefault();
    player.pause();
    void (byMs === undefined ? player.seek(toMs ?? 0) : player.move(byMs));
  };
  const share = (ms: number) => `${(ms / endMs) * 100}%`;
  return (
    <div className="grid grid-cols-[1.4rem_minmax(0,1fr)] gap-x-2 text-2xs text-muted">
      <div
        aria-hidden="true"
        className="grid grid-rows-[14px_16px_repeat(5,10px)_16px] leading-none"
      >
        <span />
        <span className="justify-self-end self-center">
          <Icon name="lease" size={10} />
        </span>
        {NODES.map((name) => (
          <Lane key={name}>{name}</Lane>
        ))}
      </div>
      <div
        ref={track}
        role="slider"
        tabIndex={0}
        aria-label="Timeline"
        aria-valuemin={0}
        aria-valuemax={Math.round(endMs)}
        aria-valuenow={Math.round(frame.atMs)}
        aria-valuetext={`${(frame.atMs / 1_000).toFixed(1)} s of ${Math.round(endMs / 1_000)} s`}
        className="relative cursor-ew-resize touch-none rounded select-none"
        onKeyDown={onKeyDown}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          player.scrub(msAt(event));
        }}
        onPointerMove={(event) => {
          if (event.currentTarget.hasPointerCapture(event.pointerId)) player.scrub(msAt(event));
        }}
        onPointerUp={(event) => void player.seek(msAt(event))}
        onPointerCancel={() => void player.seek(player.view().frame.atMs)}
      >
        <Rows endMs={endMs} />
        <div
          className="pointer-events-none absolute top-0 bottom-4 w-0.5 -translate-x-1/2 bg-ink"
          style={{ left: share(frame.atMs) }}
        >
          <span className="absolute -top-0.5 left-1/2 size-2.5 -translate-x-1/2 rounded-full bg-ink" />
        </div>
      </div>
    </div>
  );
}

function Lane({ children }: { readonly children: string }) {
  return <span className="self-center text-right font-mono text-[9px]">{children}</span>;
}

/** The lanes of a branch, kept until another branch starts. */
function useLanes(playground: Playground, branch: number): Lanes {
  const kept = useRef<{ branch: number; lanes: Lanes } | null>(null);
  if (kept.current?.branch !== branch) kept.current = { branch, lanes: new Lanes() };
  const { lanes } = kept.current;
  lanes.follow(playground);
  return lanes;
}

function Rows({ endMs }: { readonly endMs: number }) {
  const { playground, branch, frame } = useCalmView();
  const lanes = useLanes(playground, branch);
  const nowMs = playground.reachedMs;
  // All grants of the branch, including those after the shown moment.
  const last = playground.peek(nowMs);
  const { grants } = last && last.atMs > frame.atMs ? last.store : frame.store;
  const everySeconds =
    [1, 2, 5, 10, 20, 30, 60, 120].find((each) => endMs / each / 1_000 <= 9) ?? 120;
  const seconds: number[] = [];
  for (let at = 0; at * 1_000 <= endMs; at += everySeconds) seconds.push(at);
  const span = (fromMs: number, toMs: number) => ({
    left: `${(fromMs / endMs) * 100}%`,
    width: `max(2px, ${((Math.min(toMs, endMs) - fromMs) / endMs) * 100}%)`,
  });
  return (
    <div className="grid grid-rows-[14px_16px_repeat(5,10px)_16px]">
      <div className="relative">
        {playground.log
          .filter(({ isStep }) => isStep)
          .map((line) => (
            <Mark key={line.index} line={line} left={`${(line.atMs / endMs) * 100}%`} />
          ))}
      </div>
      <div className="relative my-px overflow-hidden rounded-sm bg-sunken">
        {grants.map(({ token, grantedAtMs, endedAtMs }) => (
          <div
            key={token}
            style={{ ...span(grantedAtMs, endedAtMs ?? nowMs), ...tokenStyle(token) }}
            className="token-fill absolute inset-y-0 overflow-hidden rounded-sm pl-1 font-mono leading-[14px] font-semibold text-paper"
          >
            {token}
          </div>
        ))}
      </div>
      {NODES.map((name, index) => (
        <div key={name} className="relative my-[2.5px] rounded-full bg-sunken">
          <Bars bars={lanes.gaps[index] ?? []} nowMs={nowMs} span={span} gap />
          <Bars bars={lanes.bars[index] ?? []} nowMs={nowMs} span={span} />
        </div>
      ))}
      <div className="relative">
        {seconds.map((at) => (
          <span
            key={at}
            className="absolute bottom-0 -translate-x-1/2 leading-none tabular first:translate-x-0"
            style={{ left: `${((at * 1_000) / endMs) * 100}%` }}
          >
            {at * 1_000 <= endMs * 0.97 ? `${at} s` : ""}
          </span>
        ))}
      </div>
    </div>
  );
}

const Bars = memo(function Bars({
  bars,
  nowMs,
  span,
  gap = false,
}: {
  readonly bars: readonly Bar[];
  readonly nowMs: number;
  readonly span: (fromMs: number, toMs: number) => React.CSSProperties;
  readonly gap?: boolean;
}) {
  return bars.map(({ token, fromMs, toMs }) => (
    <div
      key={fromMs}
      style={{ ...span(fromMs, Math.min(toMs, nowMs)), ...(!gap && tokenStyle(token)) }}
      className={
        gap
          ? "absolute top-1/2 h-0 border-t border-dashed border-line-strong"
          : "token-fill absolute inset-y-0 rounded-full"
      }
    />
  ));
});

const TICK = "h-2 w-[3px] rounded-full";
const MARKS: Partial<Record<LogLine["kind"], string>> = {
  grant: `${TICK} bg-accent`,
  lead: `${TICK} bg-accent`,
  release: `${TICK} bg-accent`,
  lost: "size-2 rotate-45 bg-warn",
  expire: "size-2 rotate-45 bg-warn",
  revoke: "size-2 rotate-45 bg-warn",
  corrupted: "size-2.5 rounded-full bg-danger",
  invariant: `${TICK} bg-danger`,
};

/** The mark of a step. */
function Mark({ line, left }: { readonly line: LogLine; readonly left: string }) {
  return (
    <span
      title={`${(line.atMs / 1_000).toFixed(1)} s: ${line.text}`}
      style={{ left }}
      className={classNames(
        "absolute bottom-0 grid h-3 -translate-x-1/2 place-content-center",
        ["refused", "corrupted"].includes(line.kind) && "z-10",
      )}
    >
      {line.kind === "refused" ? (
        <span className="text-base leading-none font-bold text-danger">×</span>
      ) : (
        <span className={MARKS[line.kind] ?? `${TICK} bg-line-strong`} />
      )}
    </span>
  );
}

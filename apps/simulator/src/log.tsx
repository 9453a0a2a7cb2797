/** The event log: the last two entries, and a dialog with all of them. */
import { Button, classNames, Dialog } from "leasehold-ui";
import { useState } from "react";
import type { LogLine } from "./playground/index.js";
import { useCalmView, usePlayer } from "./use-player.js";

const DOTS: Partial<Record<LogLine["kind"], string>> = {
  grant: "bg-accent",
  lead: "bg-accent",
  renew: "bg-accent/50",
  release: "bg-accent",
  refused: "bg-ok",
  corrupted: "bg-danger",
  invariant: "bg-danger",
  lost: "bg-warn",
  expire: "bg-warn",
  revoke: "bg-warn",
};

/** How many entries the dialog shows. */
const MOST_LINES = 400;

/** Whether an entry is more than routine traffic. */
function isNews({ kind, isStep }: LogLine): boolean {
  return isStep || !["message", "write"].includes(kind);
}

export function LogCard() {
  const { playground, frame, playing } = useCalmView();
  const [open, setOpen] = useState(false);
  const lines = playground.log.slice(0, frame.logEnd);
  const last = lines.filter(isNews).slice(-2);
  return (
    <section aria-label="Log" className="rounded-xl border bg-surface">
      <div className="flex items-center justify-between px-4 pt-3">
        <h2 className="text-sm font-semibold">What just happened</h2>
        <Button small look="quiet" className="-mr-2" onClick={() => setOpen(true)}>
          Full log <span className="tabular">({lines.length})</span>
        </Button>
      </div>
      <div
        role="log"
        aria-live={playing ? "off" : "polite"}
        aria-label="Last two events"
        className="min-h-28 px-4 pt-1.5 pb-4"
      >
        {last.length === 0 && (
          <p className="text-sm text-muted">No events yet. Press Play or Next step.</p>
        )}
        <ol className="grid content-start gap-2.5">
          {last.map((line, index) => (
            <Line key={line.index} line={line} old={index < last.length - 1} />
          ))}
        </ol>
      </div>
      <Announcer lines={lines} />
      <Dialog open={open} onOpenChange={setOpen} title="Full log" wide>
        <FullLog lines={lines} close={() => setOpen(false)} />
      </Dialog>
    </section>
  );
}

/** Screen readers announce only the steps while the run plays. */
function Announcer({ lines }: { readonly lines: readonly LogLine[] }) {
  const { playing } = useCalmView();
  const step = lines.findLast(({ isStep }) => isStep);
  return (
    <p className="sr-only" aria-live="polite">
      {playing ? step?.text : ""}
    </p>
  );
}

function Line({ line, old }: { readonly line: LogLine; readonly old: boolean }) {
  return (
    <li className={classNames("grid grid-cols-[auto_1fr] gap-x-2.5", old && "text-muted")}>
      <span
        aria-hidden="true"
        className={classNames("mt-[7px] size-2 rounded-full", DOTS[line.kind] ?? "bg-line-strong")}
      />
      <span className="text-sm leading-snug">
        {line.text} <Stamp line={line} />
      </span>
    </li>
  );
}

function Stamp({ line }: { readonly line: LogLine }) {
  return (
    <span className="font-mono text-2xs whitespace-nowrap text-muted tabular">
      {(line.atMs / 1_000).toFixed(2)} s
    </span>
  );
}

function FullLog({
  lines,
  close,
}: {
  readonly lines: readonly LogLine[];
  readonly close: () => void;
}) {
  const player = usePlayer();
  const [all, setAll] = useState(false);
  const shown = (all ? lines : lines.filter(isNews)).slice(-MOST_LINES);
  return (
    <>
      <label className="mb-2 flex items-center gap-2 text-sm text-muted">
        <input
          type="checkbox"
          className="accent-accent"
          checked={all}
          onChange={({ target }) => setAll(target.checked)}
        />
        include every message and write
      </label>
      <ol
        ref={(list) => list?.scrollTo(0, list.scrollHeight)}
        className="max-h-[60dvh] overflow-y-auto rounded-lg border bg-surface"
        aria-label="All events"
      >
        {shown.map((line) => (
          <li key={line.index} className="border-b last:border-b-0">
            <button
              type="button"
              title="Go to this moment"
              onClick={() => {
                close();
                player.pause();
                void player.seek(line.atMs);
              }}
              className="grid w-full grid-cols-[4.5rem_3.5rem_1fr] items-baseline gap-2 px-3 py-1.5 text-left text-sm hover:bg-sunken max-sm:grid-cols-[3.8rem_1fr]"
            >
              <Stamp line={line} />
              <span className="truncate text-xs text-muted max-sm:hidden">{line.who}</span>
              <span className={line.isStep ? "" : "text-muted"}>{line.text}</span>
            </button>
          </li>
        ))}
        {shown.length === 0 && <li className="p-4 text-sm text-muted">No events yet.</li>}
      </ol>
    </>
  );
}

/** The protected resource, with its writes as a tape in the colours of their tokens. */

import { Badge, classNames, Icon, Token, tokenStyle } from "leasehold-ui";
import type { Geometry } from "./geometry.js";
import type { ResourceFrame, WriteFrame } from "./playground/index.js";
import { usePlayer } from "./use-player.js";

const MARK_WIDTH = 14;

interface Props {
  readonly resource: ResourceFrame;
  readonly geometry: Geometry;
}

export function Resource({ resource, geometry }: Props) {
  const player = usePlayer();
  const { fenced, lastToken, value, writes, corrupted } = resource;
  const refused = writes.filter(({ accepted }) => !accepted).length;
  const badges = (refused > 0 ? 80 : 0) + (corrupted > 0 ? 100 : 0);
  const tapeWidth = geometry.width - (geometry.wide ? 340 : 30) - badges;
  return (
    <section
      aria-label="Protected resource"
      style={{ top: geometry.resource.y, height: geometry.resourceHeight }}
      className={classNames(
        "absolute inset-x-0 flex flex-col gap-2 border-t px-3 py-2.5 sm:flex-row sm:items-center sm:gap-5 sm:px-5",
        corrupted > 0 ? "border-danger bg-danger-soft/50" : "bg-paper/60",
      )}
    >
      <div className="flex items-center gap-3 sm:w-64 sm:flex-none">
        <span
          className={classNames(
            "grid size-10 flex-none place-content-center rounded-lg",
            fenced ? "bg-ok-soft text-ok" : "bg-warn-soft text-warn",
          )}
        >
          <Icon name={fenced ? "shield" : "warning"} size={20} />
        </span>
        <div className="min-w-0 flex-1">
          <div className="flex items-center justify-between gap-2">
            <h3 className="truncate text-sm font-semibold">Protected resource</h3>
            <button
              type="button"
              role="switch"
              aria-checked={fenced}
              aria-label="Fencing"
              title={
                fenced ? "The resource refuses older tokens" : "The resource accepts older tokens"
              }
              onClick={() => void player.perform({ kind: "fence", on: !fenced })}
              className={classNames(
                "rounded-full border px-2 py-0.5 text-2xs font-medium whitespace-nowrap",
                fenced ? "border-ok/40 text-ok" : "border-warn/50 text-warn",
              )}
            >
              fence {fenced ? "on" : "off"}
            </button>
          </div>
          <p className="mt-0.5 flex items-center gap-1.5 text-xs text-muted">
            newest token {lastToken > 0 ? <Token token={lastToken} /> : "none"}
            {value && <span className="truncate">from {value.node}</span>}
          </p>
        </div>
      </div>
      <div className="flex min-w-0 flex-1 items-center gap-3">
        <Tape writes={writes.slice(-Math.max(6, Math.floor(tapeWidth / MARK_WIDTH)))} />
        <span className="ml-auto flex flex-none gap-1">
          {refused > 0 && <Badge tone="ok">{refused} refused</Badge>}
          {corrupted > 0 && <Badge tone="danger">{corrupted} corrupted</Badge>}
        </span>
      </div>
    </section>
  );
}

function Tape({ writes }: { readonly writes: readonly WriteFrame[] }) {
  if (writes.length === 0) return <p className="text-xs text-muted">No writes yet.</p>;
  const last = writes.at(-1);
  return (
    <ol
      aria-label="Writes, oldest first"
      className="flex h-9 items-center gap-[3px] overflow-hidden"
    >
      {writes.map((write) => (
        <li
          key={`${write.atMs} ${write.node} ${write.token}`}
          title={`${write.node}, token ${write.token}: ${write.why}`}
          style={tokenStyle(write.token)}
          className={classNames(
            "grid h-6 w-[11px] flex-none place-content-center rounded-[3px] font-mono text-2xs font-bold",
            !write.accepted && "border border-danger bg-danger-soft text-danger",
            write.accepted && "token-fill",
            write.accepted && write.stale && "ring-2 ring-danger ring-offset-1 ring-offset-paper",
            write === last && "h-8!",
          )}
        >
          {!write.accepted && <span aria-hidden="true">×</span>}
          <span className="sr-only">
            {write.node}, token {write.token}, {write.accepted ? "accepted" : "refused"}
            {write.accepted && write.stale ? " although it is stale" : ""}
          </span>
        </li>
      ))}
    </ol>
  );
}

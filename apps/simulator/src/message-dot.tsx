/** A message in flight. Its menu can drop, delay or duplicate it. */

import { classNames, tokenStyle } from "leasehold-ui";
import { type Geometry, pointOn, wayOf } from "./geometry.js";
import { Menu } from "./menu.js";
import type { Action, Endpoint, MessageFrame } from "./playground/index.js";
import { usePausedMenu } from "./use-paused-menu.js";
import { usePlayer } from "./use-player.js";

const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const DELAYS_MS = [1_000, 5_000, 20_000] as const;

const endpointText = (place: Endpoint) => (place.startsWith("P") ? place : `the ${place}`);

interface Props {
  readonly message: MessageFrame;
  readonly geometry: Geometry;
  readonly atMs: number;
  /** Whether its text is shown beside it. */
  readonly named: boolean;
  /** Whether Tab reaches it. It does not while the message moves. */
  readonly reachable: boolean;
}

export function MessageDot({ message, geometry, atMs, named, reachable }: Props) {
  const player = usePlayer();
  const onOpenChange = usePausedMenu();
  const { id, from, to, kind, isAnswer, sentAtMs, arrivesAtMs, token, summary } = message;
  const share = (atMs - sentAtMs) / Math.max(1, arrivesAtMs - sentAtMs);
  const { x, y } = pointOn(
    wayOf(geometry, from, to),
    CALM.matches ? 0.5 : Math.min(1, Math.max(0, share)),
  );
  const performing = (action: Action) => () => void player.perform(action);
  return (
    <li
      className="absolute top-0 left-0 z-10"
      style={{ transform: `translate(${x}px, ${y}px)`, ...(token !== null && tokenStyle(token)) }}
    >
      <Menu
        title={
          <>
            <b className="text-ink">{summary}</b>, from {endpointText(from)} to {endpointText(to)}
          </>
        }
        onOpenChange={onOpenChange}
        groups={[
          {
            name: "This message",
            choices: [
              {
                name: "Drop",
                note: "it never arrives",
                danger: true,
                run: performing({ kind: "drop", message: id }),
              },
              {
                name: "Duplicate",
                note: "it arrives twice",
                run: performing({ kind: "duplicate", message: id }),
              },
            ],
          },
          {
            name: "Delay by",
            inRow: true,
            choices: DELAYS_MS.map((byMs) => ({
              name: `${byMs / 1_000} s`,
              run: performing({ kind: "delay", message: id, byMs }),
            })),
          },
        ]}
      >
        <button
          type="button"
          tabIndex={reachable ? 0 : -1}
          aria-label={`${summary}, from ${endpointText(from)} to ${endpointText(to)}`}
          className="absolute -top-3.5 -left-3.5 grid size-7 place-content-center rounded-full"
        >
          <span
            className={classNames(
              "size-3 border-[2.5px] transition-transform",
              kind === "event" ? "rotate-45 rounded-[2px]" : "rounded-full",
              token === null ? "border-line-strong" : "token-border",
              isAnswer ? "bg-raised" : token === null ? "bg-line-strong" : "token-fill",
            )}
          />
        </button>
      </Menu>
      {named && (
        <span
          aria-hidden="true"
          className="pointer-events-none absolute -top-7 -translate-x-1/2 rounded bg-raised/90 px-1 text-2xs whitespace-nowrap text-muted"
        >
          {summary}
        </span>
      )}
    </li>
  );
}

/** A process: its role as it believes, and the menu of actions on it. */

import { classNames, Icon, type IconName, tokenStyle } from "leasehold-ui";
import type { Point } from "./geometry.js";
import { Menu } from "./menu.js";
import { nodeGroups } from "./node-menu.js";
import type { NodeFrame } from "./playground/index.js";
import { usePausedMenu } from "./use-paused-menu.js";
import { usePlayer } from "./use-player.js";

const ORDINALS = ["", "1st", "2nd", "3rd", "4th", "5th"];

const STATE_TEXT = { down: "crashed", paused: "paused", suspended: "suspended" } as const;
const STATE_ICON: Record<keyof typeof STATE_TEXT, IconName> = {
  down: "close",
  paused: "pause",
  suspended: "moon",
};

function roleText({ role, state, queuePosition, starts }: NodeFrame): string {
  if (starts === 0) return "not started";
  if (state !== "up") return STATE_TEXT[state];
  if (role !== "candidate") return role;
  return queuePosition === null
    ? "candidate"
    : `${ORDINALS[queuePosition] ?? queuePosition} in queue`;
}

function clockText(rate: number): string | null {
  const percent = Math.round((rate - 1) * 100);
  if (percent === 0 || rate === 0) return null;
  return `clock ${percent > 0 ? "+" : "−"}${Math.abs(percent)}%`;
}

/** The accessible name. */
function describe(node: NodeFrame): string {
  return [
    `${node.name}: ${roleText(node)}`,
    node.token === null ? null : `believes in token ${node.token}`,
    node.link === "whole" ? null : node.link,
    clockText(node.clockRate),
  ]
    .filter((part) => part !== null)
    .join(", ");
}

interface Props {
  readonly node: NodeFrame;
  readonly at: Point;
  readonly radius: number;
  readonly wide: boolean;
}

export function NodeButton({ node, at, radius, wide }: Props) {
  const player = usePlayer();
  const onOpenChange = usePausedMenu();
  const { name, state, role, token } = node;
  const dead = state === "down" || role === "off";
  const fresh = node.starts === 0;
  const clock = clockText(node.clockRate);
  return (
    <li
      className="absolute flex w-28 -translate-x-1/2 flex-col items-center"
      style={{ left: at.x, top: at.y - radius }}
    >
      <Menu
        title={
          <>
            <b className="text-ink">{name}</b> {node.doing}
          </>
        }
        side={wide ? "right" : "bottom"}
        groups={nodeGroups(node, (action) => void player.perform(action))}
        onOpenChange={onOpenChange}
      >
        <button
          type="button"
          aria-label={describe(node)}
          style={{
            width: radius * 2,
            height: radius * 2,
            ...(token !== null && tokenStyle(token)),
          }}
          className={classNames(
            "group relative grid place-content-center justify-items-center rounded-full leading-tight transition-[background-color,scale] hover:scale-105",
            "focus-visible:outline-offset-[11px]",
            dead ? "border-2 border-dashed border-line-strong bg-paper text-muted" : "",
            !dead && (token === null ? "bg-raised shadow-raised" : "token-soft token-ink"),
          )}
        >
          <span className="text-base leading-tight font-semibold sm:text-lg">{name}</span>
          {token !== null && state !== "down" && (
            // Drawn by CSS, because the accessible name already contains the token.
            <span
              data-token={`#${token}`}
              className="-mt-0.5 font-mono text-2xs font-semibold tabular before:content-[attr(data-token)]"
            />
          )}
          {state !== "up" && !fresh && (
            <span
              className={classNames(
                "absolute -top-2 -right-2 grid size-6 place-content-center rounded-full border-2 border-surface",
                state === "down" ? "bg-danger-soft text-danger" : "bg-warn-soft text-warn",
              )}
            >
              <Icon name={STATE_ICON[state]} size={12} />
            </span>
          )}
          {role === "leader" && state !== "down" && (
            <span className="absolute -top-7">
              <Icon name="election" size={18} />
            </span>
          )}
        </button>
      </Menu>
      <div
        aria-hidden="true"
        className={classNames(
          "mt-3 flex items-baseline rounded-full bg-surface/85 px-1.5 leading-snug whitespace-nowrap",
          wide ? "gap-1.5" : "flex-col items-center",
        )}
      >
        <span
          className={classNames(
            "text-xs",
            role === "leader" && state === "up" ? "font-semibold text-ink" : "text-muted",
            state === "down" && !fresh && "text-danger!",
            (state === "paused" || state === "suspended") && "font-medium text-warn!",
          )}
        >
          {roleText(node)}
        </span>
        {clock && <span className="text-2xs font-medium text-warn tabular">{clock}</span>}
      </div>
    </li>
  );
}

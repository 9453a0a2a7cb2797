/** The store's record, and what an operator can do to it. */

import { Badge } from "../ui/badge.js";
import { Button } from "../ui/button.js";
import { classNames } from "../ui/class-names.js";
import { Icon } from "../ui/icon.js";
import { Token } from "../ui/token.js";
import { tokenStyle } from "../ui/token-colour.js";
import type { Geometry } from "./geometry.js";
import { type Choice, Menu } from "./menu.js";
import type { Act, StoreFrame } from "./playground/index.js";
import { usePausedMenu } from "./use-paused-menu.js";
import { usePlayer } from "./use-player.js";

interface Props {
  readonly store: StoreFrame;
  readonly geometry: Geometry;
}

export function StoreCard({ store, geometry }: Props) {
  const { state, lease, holder, token, remainingMs, ttlMs, line } = store;
  const live = lease === "live";
  return (
    <section
      aria-label="Store"
      style={{
        left: geometry.store.x,
        top: geometry.store.y,
        width: geometry.storeWidth,
        height: geometry.storeHeight,
        ...(token !== null && tokenStyle(token)),
      }}
      className={classNames(
        "absolute flex -translate-x-1/2 -translate-y-1/2 flex-col rounded-xl border bg-raised p-2 shadow-raised sm:p-2.5",
        state !== "up" && "border-dashed border-danger opacity-80",
      )}
    >
      <div className="flex items-center gap-1.5 text-xs text-muted">
        <Icon name="lease" size={13} />
        <span className="font-medium">Store</span>
        {state !== "up" && (
          <Badge tone="danger">{state === "down" ? "down" : "stands still"}</Badge>
        )}
        <StoreMenu store={store} />
      </div>
      <div className="mt-0.5 flex items-center gap-2">
        <span
          className={classNames(
            "truncate text-lg leading-tight font-semibold tracking-tight",
            !live && "text-sm! font-medium! text-muted",
          )}
        >
          {live ? holder : lease === "empty" ? "never held" : "free"}
        </span>
        {token !== null && (
          <span className={classNames("ml-auto", !live && "opacity-60 grayscale-50")}>
            <Token token={token} />
          </span>
        )}
      </div>
      <div className="mt-1.5 h-1.5 flex-none overflow-hidden rounded-full bg-sunken">
        <div
          className="token-fill h-full origin-left rounded-full"
          style={{
            transform: `scaleX(${live && ttlMs > 0 ? Math.min(1, remainingMs / ttlMs) : 0})`,
          }}
        />
      </div>
      <div className="mt-1 flex items-baseline justify-between gap-2 text-2xs text-muted tabular">
        <span className="truncate">
          {line.length > 0 ? `${geometry.wide ? "then " : ""}${line.join(" ")}` : "nobody in line"}
        </span>
        {live && <span className="whitespace-nowrap">{(remainingMs / 1_000).toFixed(1)} s</span>}
      </div>
      {geometry.wide && (
        <div className="mt-auto flex gap-1">
          <StoreActs store={store} className="h-6! flex-1 px-0! text-2xs!" />
        </div>
      )}
    </section>
  );
}

/** Ways in which the lease can end before its time. */
export function StoreActs({
  store,
  className = "",
}: {
  readonly store: StoreFrame;
  readonly className?: string;
}) {
  const player = usePlayer();
  const button = (name: string, title: string, act: Act) => (
    <Button
      small
      className={className}
      title={title}
      disabled={store.lease !== "live"}
      onClick={() => void player.act(act)}
    >
      {name}
    </Button>
  );
  return (
    <>
      {button("Expire", "Force expiry: the lease ends as if its time were over", {
        kind: "expire",
      })}
      {button("Release", "The leader gives the lease back by itself", { kind: "resign" })}
      {button("Revoke", "An operator takes the lease away at once", {
        kind: "revoke",
        free: "now",
      })}
    </>
  );
}

function StoreMenu({ store: { state, lease } }: { readonly store: StoreFrame }) {
  const player = usePlayer();
  const onOpenChange = usePausedMenu();
  const choice = (name: string, act: Act, note: string): Choice => ({
    name,
    note,
    run: () => void player.act(act),
  });
  return (
    <Menu
      title="The store"
      onOpenChange={onOpenChange}
      groups={[
        {
          name: "The lease",
          choices:
            lease === "live"
              ? [
                  choice("Force expiry", { kind: "expire" }, "as if its time were over"),
                  choice("Release", { kind: "resign" }, "the leader gives it back by itself"),
                  choice("Revoke at once", { kind: "revoke", free: "now" }, "the next may have it"),
                  choice(
                    "Revoke at expiry",
                    { kind: "revoke", free: "atExpiry" },
                    "renewals are refused from now on",
                  ),
                ]
              : [],
        },
        {
          name: "Its process",
          choices: [
            ...(state === "up"
              ? [
                  choice("Crash", { kind: "crash", node: "store" }, "it keeps its records"),
                  choice("Pause", { kind: "pause", node: "store" }, "nobody is answered"),
                ]
              : []),
            ...(state === "down"
              ? [choice("Restart", { kind: "restart", node: "store" }, "with its records")]
              : []),
            ...(state === "paused"
              ? [choice("Resume", { kind: "resume", node: "store" }, "those who wait are answered")]
              : []),
          ],
        },
      ]}
    >
      <button
        type="button"
        aria-label={`Store: ${state}. What to do with it`}
        title="What to do with the store"
        className="-my-1 -mr-1 ml-auto grid size-6 place-content-center rounded-md hover:bg-sunken hover:text-ink"
      >
        <Icon name="more" size={14} />
      </button>
    </Menu>
  );
}

/** The store's record of the lease, and the actions on it. */

import { Badge, Button, classNames, Icon, Token, tokenStyle } from "leasehold-ui";
import type { Geometry } from "./geometry.js";
import { type Choice, Menu } from "./menu.js";
import type { Action, StoreFrame } from "./playground/index.js";
import { usePausedMenu } from "./use-paused-menu.js";
import { usePlayer } from "./use-player.js";

interface Props {
  readonly store: StoreFrame;
  readonly geometry: Geometry;
}

export function StoreCard({ store, geometry }: Props) {
  const { state, lease, holder, token, remainingMs, ttlMs, queue } = store;
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
        {state !== "up" && <Badge tone="danger">{state === "down" ? "down" : "paused"}</Badge>}
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
          {queue.length > 0 ? `${geometry.wide ? "queue " : ""}${queue.join(" ")}` : "no waiters"}
        </span>
        {live && <span className="whitespace-nowrap">{(remainingMs / 1_000).toFixed(1)} s</span>}
      </div>
      {geometry.wide && (
        <div className="mt-auto flex gap-1">
          <StoreActions store={store} className="h-6! flex-1 px-0! text-2xs!" />
        </div>
      )}
    </section>
  );
}

/** The actions that end the lease early. */
export function StoreActions({
  store,
  className = "",
}: {
  readonly store: StoreFrame;
  readonly className?: string;
}) {
  const player = usePlayer();
  const button = (name: string, title: string, action: Action) => (
    <Button
      small
      className={className}
      title={title}
      disabled={store.lease !== "live"}
      onClick={() => void player.perform(action)}
    >
      {name}
    </Button>
  );
  return (
    <>
      {button("Expire", "Force expiry: the store ends the lease as if it had expired", {
        kind: "expire",
      })}
      {button("Release", "The leader releases the lease voluntarily", { kind: "resign" })}
      {button("Revoke", "An operator revokes the lease at once", {
        kind: "revoke",
        free: "now",
      })}
    </>
  );
}

function StoreMenu({ store: { state, lease } }: { readonly store: StoreFrame }) {
  const player = usePlayer();
  const onOpenChange = usePausedMenu();
  const choice = (name: string, action: Action, note: string): Choice => ({
    name,
    note,
    run: () => void player.perform(action),
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
                  choice("Force expiry", { kind: "expire" }, "as if it had expired"),
                  choice("Release", { kind: "resign" }, "the leader releases it voluntarily"),
                  choice(
                    "Revoke at once",
                    { kind: "revoke", free: "now" },
                    "free for the next waiter",
                  ),
                  choice(
                    "Revoke at expiry",
                    { kind: "revoke", free: "atExpiry" },
                    "renewals are refused from now on",
                  ),
                ]
              : [],
        },
        {
          name: "Process",
          choices: [
            ...(state === "up"
              ? [
                  choice("Crash", { kind: "crash", node: "store" }, "its records are kept"),
                  choice("Pause", { kind: "pause", node: "store" }, "requests wait"),
                ]
              : []),
            ...(state === "down"
              ? [choice("Restart", { kind: "restart", node: "store" }, "with its records")]
              : []),
            ...(state === "paused"
              ? [
                  choice(
                    "Resume",
                    { kind: "resume", node: "store" },
                    "waiting requests are answered",
                  ),
                ]
              : []),
          ],
        },
      ]}
    >
      <button
        type="button"
        aria-label={`Store: ${state}. Actions`}
        title="Store actions"
        className="-my-1 -mr-1 ml-auto grid size-6 place-content-center rounded-md hover:bg-sunken hover:text-ink"
      >
        <Icon name="more" size={14} />
      </button>
    </Menu>
  );
}

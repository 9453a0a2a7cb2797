/** A menu of actions, in groups, on radix-ui's dropdown menu. */
import { classNames } from "leasehold-ui";
import { DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";

export interface Choice {
  readonly name: string;
  /** The effect, in a few words. */
  readonly note?: string;
  readonly danger?: boolean;
  readonly run: () => void;
}

export interface Group {
  readonly name: string;
  readonly choices: readonly Choice[];
  /** Short choices are shown side by side. */
  readonly inRow?: boolean;
}

interface Props {
  /** The button that opens it. */
  readonly children: ReactNode;
  readonly title: ReactNode;
  readonly groups: readonly Group[];
  /** The side on which the menu opens. */
  readonly side?: "bottom" | "right";
  readonly onOpenChange?: (open: boolean) => void;
}

const ITEM =
  "cursor-pointer rounded-md text-sm outline-none data-[highlighted]:bg-accent-soft data-[highlighted]:text-accent";

export function Menu({ children, title, groups, side = "bottom", onOpenChange }: Props) {
  return (
    <DropdownMenu.Root modal={false} onOpenChange={onOpenChange ?? (() => {})}>
      <DropdownMenu.Trigger asChild>{children}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          side={side}
          sideOffset={8}
          collisionPadding={8}
          loop
          className="z-40 max-h-(--radix-dropdown-menu-content-available-height) w-64 overflow-y-auto rounded-xl border bg-raised p-1.5 text-ink shadow-raised"
        >
          <DropdownMenu.Label className="px-2.5 pt-1.5 pb-1 text-xs text-muted">
            {title}
          </DropdownMenu.Label>
          {groups
            .filter(({ choices }) => choices.length > 0)
            .map(({ name, choices, inRow }) => (
              <DropdownMenu.Group key={name} className="border-t py-1 first:border-t-0">
                <DropdownMenu.Label className="px-2.5 pt-1 pb-0.5 text-2xs font-semibold tracking-wide text-muted uppercase">
                  {name}
                </DropdownMenu.Label>
                <div className={inRow ? "grid grid-flow-col gap-0.5 px-1" : undefined}>
                  {choices.map((choice) => (
                    <DropdownMenu.Item
                      key={choice.name}
                      onSelect={choice.run}
                      className={classNames(
                        ITEM,
                        inRow ? "py-1 text-center text-xs! tabular" : "px-2.5 py-1.5",
                        choice.danger && "text-danger",
                      )}
                    >
                      {choice.name}
                      {choice.note && (
                        <span className="block text-xs text-muted">{choice.note}</span>
                      )}
                    </DropdownMenu.Item>
                  ))}
                </div>
              </DropdownMenu.Group>
            ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

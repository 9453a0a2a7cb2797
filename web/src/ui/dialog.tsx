import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { IconButton } from "./button.js";
import { Icon } from "./icon.js";

interface Props {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  readonly title: string;
  /** What follows from it, in a sentence or two. */
  readonly description?: ReactNode;
  readonly children: ReactNode;
  readonly wide?: boolean;
}

/** A dialog in the middle; on a phone it comes from below. Escape closes it. */
export function Dialog({ open, onOpenChange, title, description, children, wide }: Props) {
  return (
    <Radix.Root open={open} onOpenChange={onOpenChange}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/45" />
        <Radix.Content
          {...(description === undefined && { "aria-describedby": undefined })}
          className={`fixed inset-x-0 bottom-0 z-50 max-h-[92dvh] w-full overflow-y-auto rounded-t-xl border bg-raised p-5 shadow-raised sm:inset-x-auto sm:top-1/2 sm:bottom-auto sm:left-1/2 sm:-translate-x-1/2 sm:-translate-y-1/2 sm:rounded-xl ${wide ? "sm:max-w-2xl" : "sm:max-w-md"}`}
        >
          <div className="mb-3 flex items-start justify-between gap-3">
            <Radix.Title className="text-base font-semibold">{title}</Radix.Title>
            <Radix.Close asChild>
              <IconButton label="Close" small className="-mt-1 -mr-2">
                <Icon name="close" />
              </IconButton>
            </Radix.Close>
          </div>
          {description !== undefined && (
            <Radix.Description asChild>
              <div className="mb-4 text-sm text-muted">{description}</div>
            </Radix.Description>
          )}
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

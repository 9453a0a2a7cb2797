import { type ReactNode, useId } from "react";
import { IconButton } from "./button.js";
import { classNames } from "./class-names.js";
import { Icon } from "./icon.js";
import { Modal } from "./modal.js";

interface Props {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  readonly title: string;
  /** The consequences, in a sentence or two. */
  readonly description?: ReactNode;
  readonly children: ReactNode;
  readonly wide?: boolean;
}

/** A dialog in the middle of the page, or at the bottom of a phone. Escape closes it. */
export function Dialog({ open, onOpenChange, title, description, children, wide }: Props) {
  const id = useId();
  return (
    <Modal
      {...{ open, onOpenChange, labelledBy: `${id}-title` }}
      describedBy={description === undefined ? undefined : `${id}-about`}
      className={classNames(
        "m-auto max-h-[92dvh] w-full max-w-none overflow-y-auto rounded-t-xl border p-0 shadow-raised max-sm:mb-0 sm:rounded-xl",
        wide ? "sm:max-w-2xl" : "sm:max-w-md",
      )}
    >
      <div className="p-5">
        <div className="mb-3 flex items-start justify-between gap-3">
          <h2 id={`${id}-title`} className="text-base font-semibold">
            {title}
          </h2>
          <IconButton
            label="Close"
            small
            className="-mt-1 -mr-2"
            onClick={() => onOpenChange(false)}
          >
            <Icon name="close" />
          </IconButton>
        </div>
        {description !== undefined && (
          <div id={`${id}-about`} className="mb-4 text-sm text-muted">
            {description}
          </div>
        )}
        {children}
      </div>
    </Modal>
  );
}

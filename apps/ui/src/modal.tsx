/**
 * A modal on the browser's own dialog element: it traps the focus, makes the page behind it inert, and
 * needs no style element, which the content security policy would forbid.
 */
import { type ReactNode, useEffect, useRef } from "react";

const TYPED_INTO = "textarea, select, input:not([type=radio], [type=checkbox])";

interface Props {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  /** The id of the title. */
  readonly labelledBy?: string;
  readonly label?: string;
  readonly describedBy?: string | undefined;
  readonly className: string;
  readonly children: ReactNode;
}

export function Modal({
  open,
  onOpenChange,
  label,
  labelledBy,
  describedBy,
  className,
  children,
}: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    if (!open || !element || element.open) return;
    element.showModal();
    // React focuses before the dialog is visible, and the browser would then focus the Close button.
    element.querySelector<HTMLElement>(TYPED_INTO)?.focus();
  }, [open]);
  if (!open) return null;
  return (
    <dialog
      ref={dialog}
      aria-label={label}
      aria-labelledby={labelledBy}
      aria-describedby={describedBy}
      onClose={() => onOpenChange(false)}
      onClick={({ target, currentTarget }) => {
        // A click on the backdrop targets the dialog element itself, not its content.
        if (target === currentTarget) onOpenChange(false);
      }}
      className={`bg-raised text-ink backdrop:bg-black/45 ${className}`}
    >
      {children}
    </dialog>
  );
}

import type { ComponentProps } from "react";
import { classNames } from "./class-names.js";

const LOOKS = {
  primary: "bg-accent text-accent-ink border-transparent hover:brightness-110",
  plain: "bg-surface text-ink border-line hover:border-line-strong hover:bg-raised",
  quiet: "bg-transparent text-muted border-transparent hover:text-ink hover:bg-sunken",
  danger: "bg-surface text-danger border-line hover:border-danger hover:bg-danger-soft",
} as const;

interface Props extends ComponentProps<"button"> {
  readonly look?: keyof typeof LOOKS;
  readonly small?: boolean;
}

export function Button({ look = "plain", small = false, className, type, ...rest }: Props) {
  return (
    <button
      type={type ?? "button"}
      className={classNames(
        "inline-flex items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap transition-colors",
        "disabled:cursor-not-allowed disabled:opacity-50",
        small ? "h-7 px-2 text-xs" : "h-9 px-3 text-sm",
        LOOKS[look],
        className,
      )}
      {...rest}
    />
  );
}

/** A button that shows only an icon; `label` is its accessible name. */
export function IconButton({
  label,
  className,
  ...rest
}: Omit<Props, "aria-label"> & { readonly label: string }) {
  return (
    <Button
      aria-label={label}
      title={label}
      look="quiet"
      className={classNames("w-9 px-0!", className)}
      {...rest}
    />
  );
}

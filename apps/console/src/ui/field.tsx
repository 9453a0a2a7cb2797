import { classNames } from "leasehold-ui";
import { type ComponentProps, type ReactNode, useId } from "react";

const INPUT =
  "h-9 w-full rounded-md border border-line-strong/60 bg-surface px-3 text-sm placeholder:text-muted focus-visible:border-accent disabled:opacity-60";

interface FieldProps {
  readonly label: string;
  readonly help?: ReactNode;
  readonly error?: string | undefined;
  /** Renders the control with its id and the id of its description. */
  readonly children: (ids: { id: string; "aria-describedby": string | undefined }) => ReactNode;
}

export function Field({ label, help, error, children }: FieldProps) {
  const id = useId();
  const description = error ?? help;
  return (
    <div className="grid gap-1.5">
      <label htmlFor={id} className="text-sm font-medium">
        {label}
      </label>
      {children({ id, "aria-describedby": description ? `${id}-description` : undefined })}
      {description && (
        <div
          id={`${id}-description`}
          role={error ? "alert" : undefined}
          className={classNames("text-xs", error ? "text-danger" : "text-muted")}
        >
          {description}
        </div>
      )}
    </div>
  );
}

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input className={classNames(INPUT, className)} autoComplete="off" {...rest} />;
}

export function Textarea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea className={classNames(INPUT, "h-auto py-2 font-mono", className)} {...rest} />;
}

export function Select({ className, ...rest }: ComponentProps<"select">) {
  return <select className={classNames(INPUT, "pr-8", className)} {...rest} />;
}

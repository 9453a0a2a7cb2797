import { classNames } from "leasehold-ui";
import type { ReactNode } from "react";

export function Panel({
  title,
  aside,
  children,
  className,
}: {
  readonly title?: ReactNode;
  readonly aside?: ReactNode;
  readonly children: ReactNode;
  readonly className?: string;
}) {
  return (
    <section className={classNames("rounded-xl border bg-surface", className)}>
      {title !== undefined && (
        <div className="flex flex-wrap items-center justify-between gap-2 border-b px-4 py-2.5">
          <h2 className="text-sm font-semibold">{title}</h2>
          {aside && <div className="text-xs text-muted">{aside}</div>}
        </div>
      )}
      {children}
    </section>
  );
}

/** One large number with its name above it. */
export function Figure({
  name,
  value,
  note,
  className,
}: {
  readonly name: string;
  readonly value: ReactNode;
  readonly note?: ReactNode;
  readonly className?: string;
}) {
  return (
    <div className={classNames("min-w-0 px-4 py-3", className)}>
      <div className="text-xs text-muted">{name}</div>
      <div className="mt-0.5 text-2xl font-semibold tracking-tight tabular">{value}</div>
      {note && <div className="mt-0.5 text-xs text-pretty text-muted">{note}</div>}
    </div>
  );
}
